"""What a program may use, and the container that holds it to that: pure, limits in, the body of a create call out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from devassist.core.errors import ConfigInvalid
from devassist.sandbox.output import OUTPUT_BYTES

MIB = 1 << 20
LEAST_MEMORY = 32 * MIB
"""Less than this holds no Python and its supervisor."""
USER = 65534
"""Nobody: owns nothing on any host."""
_HERE = Path(__file__).parent
_CLOSED = tuple(map(PurePosixPath, ("/proc", "/sys", "/dev", "/run", "/var/run", "/boot", "/etc", "/root")))
_OWN = tuple(map(PurePosixPath, ("/tmp", "/code")))
# As newer engines have it, and then some: on an older one its own list would count.
_MASKED = (
    "/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
    "/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/dmi",
    "/sys/devices/virtual/powercap", "/sys/firmware",
)  # fmt: skip

ENVIRONMENT = {
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTEST_ADDOPTS": "-p no:cacheprovider",
    # A thread per core of the host would count against the limit of processes, and share one core's time.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
CANNOT = (
    "reach any network; only sockets within the program itself work / 访问任何网络（只有程序内部的套接字可用）",
    "write files anywhere but in /tmp (64 MB, nothing there can be executed) / 在 /tmp（64 MB，不可执行）以外写文件",
    "read input: stdin is empty / 读取输入：标准输入为空",
    "install packages / 安装软件包",
    "use locks or queues of multiprocessing: there is no shared memory / 使用 multiprocessing 的锁和队列：没有共享内存",
)
"""What programs cannot do here, for models and people."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Limits of one execution, in bytes where they are sizes. ``paths`` are directories of the host that programs may
    read, at the same place. ``runtime`` is the engine's default where empty (``runsc``: gVisor)."""

    memory: int = 128 * MIB
    cpus: float = 1.0
    pids: int = 64
    tmp: int = 64 * MIB
    output: int = OUTPUT_BYTES
    paths: tuple[Path, ...] = ()
    runtime: str = ""

    def check(self, *closed: Path) -> None:
        """Raises ConfigInvalid for limits that cannot work and for paths that would open the host; ``closed`` are
        further places of ours (the engine's socket, other programs' code)."""
        if self.memory < LEAST_MEMORY:
            least = f"{LEAST_MEMORY // MIB}m"
            raise ConfigInvalid(f"SANDBOX_MEMORY_LIMIT is {self.memory} bytes; allowed is {least} or more")
        for path in self.paths:
            if why := _unfit(path, closed):
                raise ConfigInvalid(f"SANDBOX_ALLOWED_PATHS holds {path}, which {why}")

    def text(self) -> str:
        """The limits in one line, for the record."""
        parts = [
            f"memory={self.memory // MIB}MiB",
            f"cpus={self.cpus:g}",
            f"pids={self.pids}",
            f"tmp={self.tmp // MIB}MiB",
            f"output={self.output // MIB}MiB",
            "network=none",
            f"user={USER}",
            f"seccomp={SECCOMP_ID}",
        ]
        parts += [f"runtime={self.runtime}"] * bool(self.runtime)
        parts += [f"read={':'.join(map(str, self.paths))}"] * bool(self.paths)
        return " ".join(parts)


def _unfit(path: Path, closed: tuple[Path, ...]) -> str:
    """Why a path may not be shown to programs; empty when it may. Links count as what they lead to."""
    if not path.is_dir():
        return "is not a directory"
    for place in (path, path.resolve()):
        pure = PurePosixPath(place)
        if any(pure == own or pure in own.parents for own in (*_CLOSED, *_OWN)):
            return "holds the system itself"
        if any(shut in pure.parents for shut in _CLOSED):
            return "belongs to the system"
        if any(pure in (shut, *PurePosixPath(shut.resolve()).parents) or shut in place.parents for shut in closed):
            return "holds the sandbox's own files or its engine's socket"
    return ""


def _compact(text: str) -> str:
    return json.dumps(json.loads(text), separators=(",", ":"))


SECCOMP = _compact((_HERE / "seccomp.json").read_text("utf-8"))
SECCOMP_ID = hashlib.sha256(SECCOMP.encode()).hexdigest()[:12]
SUPERVISOR = (_HERE / "supervisor.py").read_text("utf-8")


def container(policy: Policy, image: str, code: Path, labels: Mapping[str, str], *, warm: bool) -> dict[str, Any]:
    """The body of ``POST /containers/create``. ``code`` is the host's directory with main.py; ``warm``: there is time
    to load the usual modules before the program comes."""
    return {
        "Image": image,
        "Entrypoint": ["python3", "-I", "-c", SUPERVISOR],
        "Cmd": ["warm" if warm else "cold"],
        "User": f"{USER}:{USER}",
        "WorkingDir": "/tmp",
        "Hostname": "sandbox",
        "Env": [f"{name}={value}" for name, value in ENVIRONMENT.items()],
        "Labels": dict(labels),
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "OpenStdin": True,
        "StdinOnce": True,  # stdin ends when we do: then the supervisor kills everything
        "Tty": False,
        "NetworkDisabled": True,  # spares the engine the making of a network: a third of a start
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": _host_config(policy, code),
    }


def _host_config(policy: Policy, code: Path) -> dict[str, Any]:
    return {
        "NetworkMode": "none",
        "ReadonlyRootfs": True,
        "Mounts": [_read_only(code, "/code"), *(_read_only(path.resolve(), str(path)) for path in policy.paths)],
        "Tmpfs": {"/tmp": f"rw,noexec,nosuid,nodev,size={policy.tmp},nr_inodes=16384,mode=1777"},
        "Memory": policy.memory,
        "MemorySwap": policy.memory,  # both together: no swap on top
        "PidsLimit": policy.pids,
        "NanoCpus": round(policy.cpus * 1e9),
        "CpuShares": 512,  # of 1024: the service comes first
        "OomScoreAdj": 500,  # when the host runs out of memory, sandboxes go before services
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges", f"seccomp={SECCOMP}"],
        "MaskedPaths": list(_MASKED),
        "IpcMode": "none",
        "CgroupnsMode": "private",
        "Ulimits": [
            {"Name": name, "Soft": value, "Hard": value}
            for name, value in (
                ("core", 0), ("nofile", 256), ("fsize", policy.tmp), ("msgqueue", 0), ("memlock", 0),
            )
        ],
        # Output goes through the attached streams alone: a log would fill the host's disk.
        "LogConfig": {"Type": "none"},
        "RestartPolicy": {"Name": "no"},
        **({"Runtime": policy.runtime} if policy.runtime else {}),
    }  # fmt: skip


def _read_only(source: Path, target: str) -> dict[str, Any]:
    """A bind that shows no mounts below it: those would not be read-only."""
    return {
        "Type": "bind",
        "Source": str(source),
        "Target": target,
        "ReadOnly": True,
        "BindOptions": {"Propagation": "rprivate", "NonRecursive": True},
    }

"""The container that holds a program, as data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from devassist.core.errors import ConfigInvalid
from devassist.sandbox.policy import MIB, SECCOMP, Policy, container

HERE = Path(__file__).parent
NEVER = (
    "add_key bpf chroot delete_module execveat finit_module fsopen init_module io_uring_enter io_uring_setup "
    "iopl ioperm kcmp kexec_load keyctl lookup_dcookie mbind memfd_create mknod mknodat modify_ldt mount move_mount "
    "mq_open name_to_handle_at open_by_handle_at open_tree perf_event_open pidfd_getfd pivot_root process_vm_readv "
    "process_vm_writev ptrace quotactl reboot request_key seccomp setgid setns setuid shmget splice swapon syslog "
    "umount umount2 unshare userfaultfd vmsplice"
).split()


def body(policy: Policy | None = None) -> dict[str, Any]:
    return container(policy or Policy(), "sha256:1", Path("/srv/x/1"), {"a": "b"}, warm=True)


def test_no_door_is_left_open() -> None:
    """What a container has to be held to stands in the call that makes it."""
    host = body()["HostConfig"]
    assert body()["User"] == "65534:65534"
    assert (host["NetworkMode"], host["ReadonlyRootfs"], host["CapDrop"]) == ("none", True, ["ALL"])
    assert host["Memory"] == host["MemorySwap"] == 128 * MIB
    assert (host["PidsLimit"], host["NanoCpus"], host["IpcMode"]) == (64, 10**9, "none")
    assert host["Tmpfs"]["/tmp"].startswith(f"rw,noexec,nosuid,nodev,size={64 * MIB},")
    assert (host["LogConfig"], host["SecurityOpt"]) == (
        {"Type": "none"},
        ["no-new-privileges", f"seccomp={SECCOMP}"],
    )
    assert {"Name": "msgqueue", "Soft": 0, "Hard": 0} in host["Ulimits"]
    assert not {"Privileged", "Devices", "CapAdd", "PidMode", "UsernsMode", "Binds"} & host.keys()
    assert [(mount["Source"], mount["Target"], mount["ReadOnly"]) for mount in host["Mounts"]] == [
        ("/srv/x/1", "/code", True)
    ]


def test_the_filter_lets_through_what_it_names_and_no_more() -> None:
    """All else is refused; what a program has no business with is in no list, and sockets only of named kinds."""
    profile = json.loads(SECCOMP)
    allowed = [rule for rule in profile["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW"]
    names = [name for rule in allowed for name in rule["names"]]
    always = [name for rule in allowed if "args" not in rule for name in rule["names"]]
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    assert not set(names) & set(NEVER)
    assert sorted(set(always)) == always
    assert not {"socket", "clone", "clone3", "personality", "prlimit64"} & set(always)
    families = {rule["args"][0]["value"] for rule in allowed if rule["names"] == ["socket"]}
    assert families == {1, 2, 10}


def test_allowed_paths_are_shown_to_be_read(tmp_path: Path) -> None:
    """At the same place, by what they lead to, read-only and without mounts below."""
    link = tmp_path / "link"
    link.symlink_to(HERE)
    policy = Policy(paths=(link,))
    policy.check()
    mount = body(policy)["HostConfig"]["Mounts"][1]
    assert (mount["Source"], mount["Target"], mount["ReadOnly"]) == (str(HERE), str(link), True)
    assert mount["BindOptions"]["NonRecursive"]
    assert f"read={link}" in policy.text()


@pytest.mark.parametrize("place", ["/", "/etc", "/etc/ssl", "/proc", "/proc/self", "/sys", "/dev", "/run", "/var/run",
                                   "/var", "/root", "/tmp", "/none/such", __file__])  # fmt: skip
def test_paths_that_open_the_host_are_refused(place: str) -> None:
    """The system's own, what holds it, what is no directory."""
    with pytest.raises(ConfigInvalid, match="SANDBOX_ALLOWED_PATHS"):
        Policy(paths=(Path(place),)).check()


def test_paths_that_lead_elsewhere_count_as_what_they_lead_to(tmp_path: Path) -> None:
    """A link to the system is the system; what holds our own files, or lies in them, is ours."""
    (tmp_path / "link").symlink_to("/etc")
    (tmp_path / "base" / "own").mkdir(parents=True)
    for path in (tmp_path / "link", tmp_path, tmp_path / "base", tmp_path / "base" / "own"):
        with pytest.raises(ConfigInvalid, match="SANDBOX_ALLOWED_PATHS"):
            Policy(paths=(path,)).check(tmp_path / "base")


def test_too_little_memory_is_refused() -> None:
    """What holds no interpreter is a wrong setting, not a sandbox that fails every time."""
    with pytest.raises(ConfigInvalid, match="SANDBOX_MEMORY_LIMIT"):
        Policy(memory=16 * MIB).check()

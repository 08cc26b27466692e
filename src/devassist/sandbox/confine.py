"""What a process gives up before it works for others: files, sockets, processes, privileges.

Whatever the kernel offers of this is used, and what it came to is told for the record. Each part holds without the
others, so one that is missing takes nothing from the rest.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import struct
import sys

NOBODY = 65534
_OWN_MEMORY = 512 << 20
"""What the process may have besides its programs' memory: a bound for faults of the runtime, never reached."""


def confine(memory: int) -> str:
    """Keep computing, what is open, threads, and ``memory`` more bytes than the process needs for itself. Only before
    threads are started, for most of it counts for those that come. Returns what it came to."""
    parts: list[str] = []
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("500")  # when the host runs out of memory, sandboxes go before services
        _limit(resource.RLIMIT_DATA, memory + _OWN_MEMORY)
        parts += ["no_new_privs"] * (libc.prctl(38, 1, 0, 0, 0) == 0)
        parts += ["landlock"] * _landlock(libc)
    os.nice(3)
    for what, limit in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_NOFILE, 64)):
        _limit(what, limit)
    if os.getuid() == 0:
        with contextlib.suppress(PermissionError):  # a root that may not even this
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
    if sys.platform == "linux":
        parts += ["seccomp"] * _seccomp(ctypes.CDLL(None))
    return " ".join([f"user={os.getuid()}", *parts])


def _limit(what: int, most: int) -> None:
    hard = resource.getrlimit(what)[1]
    limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (limit, limit))


def _landlock(libc: ctypes.CDLL) -> bool:
    """No files, and where the kernel knows how: no TCP, no signals to others, no abstract sockets. Needs Linux 5.13."""
    create, restrict = 444, 446
    version: int = libc.syscall(create, None, 0, 1)
    if version < 1:
        return False
    files = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)) - 1
    rules = struct.pack("QQQ", files, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    ruleset: int = libc.syscall(create, rules, 8 if version < 4 else 16 if version < 6 else 24, 0)
    if ruleset < 0:
        return False
    done: int = libc.syscall(restrict, ruleset, 0)
    os.close(ruleset)
    return done == 0


_REFUSED = {
    "x86_64": (0xC000003E, (
        41, 42, 49, 53, 57, 58, 59, 62, 101, 155, 161, 165, 166, 175, 200, 234, 246, 248, 249, 250, 272, 279, 298,
        304, 308, 310, 311, 313, 317, 321, 322, 323, 424, 425, 428, 429, 430, 431, 432, 434, 438, 440, 442,
    )),
    "aarch64": (0xC00000B7, (
        198, 199, 200, 203, 221, 281, 117, 41, 51, 40, 39, 105, 104, 129, 130, 131, 217, 218, 219, 97, 239, 241, 265,
        268, 270, 271, 273, 277, 280, 282, 424, 425, 428, 429, 430, 431, 432, 434, 438, 440, 442,
    )),
}  # fmt: skip
"""Per machine its name for the kernel (AUDIT_ARCH) and the calls that are refused: sockets, new programs and processes,
signals to others and their memory, ptrace, namespaces, mounts, modules, keys, bpf, perf, io_uring."""
_CLONE, _CLONE3, _CLONE_THREAD = {"x86_64": 56, "aarch64": 220}, 435, 0x10000


def _seccomp(libc: ctypes.CDLL) -> bool:
    """No sockets, no programs, no processes: a list of calls that fail with EPERM, whatever their arguments."""
    machine = platform.machine()
    if machine not in _REFUSED:
        return False
    arch, refused = _REFUSED[machine]
    load, equal, above, bits, end = 0x20, 0x15, 0x35, 0x45, 0x06
    kill, refuse, unknown, allow = 0x80000000, 0x50001, 0x50026, 0x7FFF0000
    code = [
        (load, 0, 0, 4), (equal, 1, 0, arch), (end, 0, 0, kill),
        (load, 0, 0, 0), (above, 0, 1, 0x40000000), (end, 0, 0, refuse),
        (equal, 0, 1, _CLONE3), (end, 0, 0, unknown),  # then threads are made with clone, which shows its flags
        (equal, 0, 3, _CLONE[machine]), (load, 0, 0, 16), (bits, 0, len(refused) + 2, _CLONE_THREAD),
        (end, 0, 0, allow),
        *((equal, len(refused) - at, 0, number) for at, number in enumerate(refused)),
        (end, 0, 0, allow), (end, 0, 0, refuse),
    ]  # fmt: skip
    filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in code))
    program = struct.pack("HxxxxxxP", len(code), ctypes.addressof(filters))
    return libc.prctl(22, 2, program, 0, 0) == 0

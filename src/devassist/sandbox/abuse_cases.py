"""What one abuse case is: a program that tries something, and how to tell whether it got away with it.

The programs report with ``held``, ``hole`` and ``absent`` (what they tried does not exist here); those whose end tells
more are judged by it. Nothing here leaves the machine: the one outside address is of a network that no one has
(192.0.2.0/24, RFC 5737), and is only tried where no network is.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from devassist.ports.sandbox import Execution

TIMEOUT_S = 4.0
STREAM_CHARS = 20_100
"""No stream is shown longer than its two ends and the line between."""

Judge = Callable[[Execution], str]
"""What is wrong with how a program ended; empty when nothing is."""


@dataclass(frozen=True, slots=True)
class Abuse:
    """``ends``: ``says`` must report itself (or be stopped for its limits), ``stopped`` must not get to its own end,
    ``judged`` is told by ``judge`` alone, which counts for the others too. ``{port}`` in the code is a port that
    listens on the host's loopback."""

    number: int
    name: str
    code: str
    ends: Literal["says", "stopped", "judged"] = "says"
    judge: Judge | None = None
    timeout_s: float = TIMEOUT_S

    def program(self, port: int) -> str:
        body = textwrap.indent(textwrap.dedent(self.code).replace("{port}", str(port)), "    ")
        return f"{_PRELUDE}\ntry:\n{body}\n{_POSTLUDE}"


def timed_out(execution: Execution) -> str:
    return "" if execution.timed_out else f"ended by itself with {execution.exit_code}"


def out_of_memory(execution: Execution) -> str:
    refused = "MemoryError" in execution.stderr
    return "" if execution.oom_killed or refused else f"exit {execution.exit_code}, and no word of memory"


def exits(code: int) -> Judge:
    def judge(execution: Execution) -> str:
        return "" if execution.exit_code == code else f"exit {execution.exit_code} in place of {code}"

    return judge


_POSTLUDE = """except (ImportError, AttributeError, NotImplementedError) as error:
    absent(error)
"""

_PRELUDE = '''
import errno, os, sys

def _say(word, detail):
    print("@" + word, " ".join(str(detail).split())[:200], flush=True)

def held(detail=""): _say("held", detail)
def hole(detail=""): _say("hole", detail)
def absent(detail=""): _say("absent", detail)

def refused(name, attempt, *args):
    """The attempt must fail as the system's own refusal."""
    try:
        result = attempt(*args)
    except (OSError, ValueError, RuntimeError) as error:
        held(f"{name}: {error}")
    else:
        hole(f"{name}: {result!r}")

_NUMBERS = {
    "ptrace": (101, 117), "syslog": (103, 116), "pivot_root": (155, 41), "chroot": (161, 51), "mount": (165, 40),
    "umount2": (166, 39), "swapon": (167, 224), "reboot": (169, 142), "init_module": (175, 105),
    "kexec_load": (246, 104), "add_key": (248, 217), "keyctl": (250, 219), "unshare": (272, 97),
    "perf_event_open": (298, 241), "open_by_handle_at": (304, 265), "setns": (308, 268),
    "process_vm_readv": (310, 270), "memfd_create": (319, 279), "bpf": (321, 280), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "open_tree": (428, 428), "fsopen": (430, 430), "clone3": (435, 435),
    "pidfd_getfd": (438, 438), "mq_open": (240, 180), "shmget": (29, 194), "clone": (56, 220),
}

def syscall(name, *args):
    """Result and errno of a system call, beneath whatever Python would check."""
    import ctypes, platform
    libc = ctypes.CDLL(None, use_errno=True)
    number = _NUMBERS[name][platform.machine() == "aarch64"]
    longs = [ctypes.c_long(value) if isinstance(value, int) else value for value in args]
    return libc.syscall(ctypes.c_long(number), *longs), ctypes.get_errno()

def forbidden(name, *args):
    """The kernel must not even look at the arguments: EPERM, or a call that it does not know."""
    result, code = syscall(name, *args)
    if result == -1 and code in (errno.EPERM, errno.ENOSYS):
        held(f"{name}: {errno.errorcode[code]}")
    else:
        hole(f"{name}: {result} {errno.errorcode.get(code, code)}")
'''

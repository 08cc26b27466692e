"""Process 1 of a sandbox's container: starts the program, watches over it, and says how it ended.

policy.py puts the text of this file into the container, as `python3 -I -c`: nothing here may be imported from the
package, and it has to run on whatever Python 3.9 or newer the image has. What passes between host and supervisor:

    stdout  \\0 \\x1e ready \\n                                     once a program can be taken
    stdin   NONCE SECONDS \\n                                     run /code/main.py now, for so long at most
    both    \\0 \\x1e NONCE STATUS MICROSECONDS TIMED_OUT OOM \\n   nothing of the program is left, and no byte follows

The program cannot know the nonce: its process was forked before the nonce arrived, and the supervisor's memory and
files are closed to it. When stdin ends, whoever asked is gone, and everything is killed.

Callers wait for what is loaded here, so that is only what is built into the interpreter: the friendlier modules over it
(signal, threading, ctypes, contextlib, types) would take half as long again as starting Python.
"""

from __future__ import annotations

import _ctypes
import _thread
import atexit
import builtins
import gc
import os
import select
import sys
import time

TYPE_CHECKING = False  # as slow to load as those
if TYPE_CHECKING:
    import signal as _signal
    from typing import Any, NoReturn
else:
    import _signal

CODE = "/code/main.py"
MARK = b"\0\x1e"
PRELOADED = (
    "json re math random datetime collections itertools functools statistics decimal fractions string textwrap typing "
    "dataclasses enum io traceback linecache tempfile pathlib subprocess copy heapq bisect operator csv hashlib "
    "base64 struct inspect argparse logging asyncio concurrent.futures.thread"
)
"""What programs usually import, loaded where time allows it: before a program comes."""


class _Despite:
    """contextlib.suppress, which is slow to load."""

    def __init__(self, *kinds: type[BaseException]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> bool:
        return kind is not None and issubclass(kind, self._kinds)


def main() -> NoReturn:
    # A process 1 does not get signals from within that it has no handler for: SIGINT too must have none.
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    if "warm" in sys.argv[1:]:
        for name in PRELOADED.split():
            with _Despite(ImportError):
                __import__(name)
        gc.collect()
    gc.freeze()
    go, start = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(start)
        _be_program(go)
    os.close(go)
    _close_to_others()
    _write(1, MARK + b"ready\n")
    nonce, seconds = _order()
    expired: list[bool] = []
    _thread.start_new_thread(_watch, (float(seconds), expired))
    begun = time.monotonic()
    os.write(start, b"!")
    status = _reap(child)
    elapsed = time.monotonic() - begun
    timed_out = bool(expired) and status == -_signal.SIGKILL
    _kill_rest()
    trailer = MARK + b"%s %d %d %d %d\n" % (nonce, status, elapsed * 1e6, timed_out, _oom_kills())
    for stream in (1, 2):
        _write(stream, trailer)
    os._exit(0)


def _order() -> tuple[bytes, bytes]:
    """The nonce, and the seconds that the program may take."""
    line = b""
    while not line.endswith(b"\n"):
        data = os.read(0, 256)
        if not data:
            os._exit(0)
        line += data
    nonce, seconds = line.split()
    return nonce, seconds


def _close_to_others() -> None:
    """Make memory and files of this process unreadable to its siblings of the same user (PR_SET_DUMPABLE)."""
    here = _ctypes.dlopen(None, 0)  # pyright: ignore[reportArgumentType] # what this process has loaded itself
    prctl = _ctypes.dlsym(here, "prctl")
    if _ctypes.call_function(prctl, (4, 0, 0, 0, 0)) != 0 or _ctypes.call_function(prctl, (3, 0, 0, 0, 0)) != 0:
        os._exit(70)


def _watch(seconds: float, expired: list[bool]) -> NoReturn:
    """Wait for the time to pass or for stdin to end, then kill until nothing is left to kill."""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    if not poll.poll(seconds * 1000):
        expired.append(True)
    while True:
        with _Despite(OSError):
            os.kill(-1, _signal.SIGKILL)
        time.sleep(0.02)


def _reap(child: int) -> int:
    """The child's end: its exit code, negative for a signal. Orphans that end meanwhile are buried too."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            return os.waitstatus_to_exitcode(status)


def _kill_rest() -> None:
    """End with nobody left who could write: as process 1 this one is spared by kill(-1)."""
    while True:
        with _Despite(ProcessLookupError):
            os.kill(-1, _signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _oom_kills() -> int:
    """How many of the container's processes were killed for memory, by either version of cgroups."""
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        with _Despite(OSError), open(path) as file:
            for line in file:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return 0


def _write(stream: int, data: bytes) -> None:
    """All of it, also where the program made the pipe non-blocking; in vain where nobody reads any more."""
    with _Despite(OSError):
        os.set_blocking(stream, True)
        while data:
            data = data[os.write(stream, data) :]


def _be_program(go: int) -> NoReturn:
    """The child: made ready as far as possible, then held until the word comes."""
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    with _Despite(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # for the kernel to take the program, and not the one who can tell
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    sys.argv[:] = [CODE]
    sys.path.insert(0, "/code")
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr] # a killed program has shown what it printed
    module = type(sys)("__main__")
    module.__dict__.update(__file__=CODE, __builtins__=builtins)
    sys.modules["__main__"] = module
    if not os.read(go, 1):
        os._exit(0)
    os.close(go)
    os._exit(_run(module.__dict__))


def _run(names: dict[str, Any]) -> int:
    """What `python main.py` does, to the exit code."""
    code = 0
    try:
        with open(CODE, "rb") as file:
            source = file.read()
        exec(compile(source, CODE, "exec", dont_inherit=True), names)
    except BaseException as error:  # noqa: BLE001 # SystemExit and KeyboardInterrupt end a program too
        code = _report(error)
    try:
        if threading := sys.modules.get("threading"):
            threading._shutdown()  # waits for the program's threads, as the interpreter does
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage] # what ends with os._exit has to ask for it
    except BaseException as error:  # noqa: BLE001
        code = _report(error)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            code = code or 120
    return code


def _report(error: BaseException) -> int:
    """Show an exception without the frames of this file; its exit code."""
    if isinstance(error, SystemExit):
        if error.code is None or isinstance(error.code, int):
            return (error.code or 0) & 0xFF
        with _Despite(Exception):
            print(error.code, file=sys.stderr)
        return 1
    trace = error.__traceback__.tb_next if error.__traceback__ else None
    with _Despite(BaseException):
        sys.excepthook(type(error), error.with_traceback(trace), trace)
    return 1


if __name__ == "__main__":
    main()

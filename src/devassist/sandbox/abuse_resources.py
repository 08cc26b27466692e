"""Abuse cases that use up what there is, or will not end."""

from __future__ import annotations

from devassist.ports.sandbox import Execution
from devassist.sandbox.abuse_cases import STREAM_CHARS, Abuse, exits, out_of_memory, timed_out

_SHORT_S = 2.0


def _bounded(execution: Execution) -> str:
    longest = max(len(execution.stdout), len(execution.stderr))
    return "" if longest <= STREAM_CHARS and execution.truncated else f"{longest} characters were kept"


def _prompt(execution: Execution) -> str:
    late = execution.timed_out or "@hole" in execution.stdout
    return "a child outlived its program" if late else exits(0)(execution)


RESOURCES = (
    Abuse(16, "fork bomb", """
        import time
        born = 0
        try:
            while born < 300:
                if os.fork() == 0:
                    time.sleep(30)
                    os._exit(0)
                born += 1
        except OSError as error:
            held(f"{born} children, then {error}")
        else:
            hole(f"{born} children")
    """),
    Abuse(17, "thread bomb", """
        import threading
        stop, born = threading.Event(), 0
        try:
            while born < 300:
                threading.Thread(target=stop.wait, daemon=True).start()
                born += 1
        except RuntimeError as error:
            held(f"{born} threads, then {error}")
        else:
            hole(f"{born} threads")
    """),
    Abuse(18, "memory bomb", """
        kept = []
        while True:
            kept.append(b"x" * 10_000_000)
    """, "stopped", out_of_memory),
    Abuse(19, "memory bomb in children", """
        import time
        reader, writer = os.pipe()
        for _ in range(8):
            if os.fork() == 0:
                kept = b"x" * 60_000_000
                os.write(writer, b"1")
                time.sleep(20)
                os._exit(0)
        os.set_blocking(reader, False)
        have = dead = 0
        until = time.monotonic() + 3
        while have < 8 and not dead and time.monotonic() < until:
            try:
                have += len(os.read(reader, 100))
            except BlockingIOError:
                time.sleep(0.02)
            dead += os.waitpid(-1, os.WNOHANG)[0] > 0
        (hole if have == 8 and not dead else held)(f"{have} of 8 had 60 MB, {dead} killed")
    """),
    Abuse(20, "filling /tmp", """
        written, block = 0, b"x" * (1 << 20)
        try:
            for number in range(30):
                with open(f"/tmp/fill{number}", "wb") as file:
                    for _ in range(10):
                        file.write(block)
                        file.flush()
                        written += 1
        except OSError as error:
            held(f"{written} MB, then {error}")
        else:
            hole(f"{written} MB")
    """),
    Abuse(21, "filling /tmp with names", """
        born = 0
        try:
            while born < 100_000:
                os.close(os.open(f"/tmp/{born}", os.O_CREAT | os.O_WRONLY))
                born += 1
        except OSError as error:
            held(f"{born} files, then {error}")
        else:
            hole(f"{born} files")
    """),
    Abuse(22, "infinite loop", "while True: pass", "stopped", timed_out, _SHORT_S),
    Abuse(23, "infinite output", """
        while True:
            sys.stdout.write("x" * 100_000)
            sys.stderr.write("y" * 100_000)
    """, "stopped", _bounded),
    Abuse(26, "killing process 1 and the parent", """
        import signal
        for pid in {1, os.getppid()}:
            for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSTOP, signal.SIGHUP,
                           signal.SIGSEGV, signal.SIGABRT, signal.SIGXCPU, signal.SIGCHLD, signal.SIGPIPE):
                try:
                    os.kill(pid, number)
                except OSError:
                    pass
        held("still here")
    """, "says", exits(0)),
    Abuse(27, "zombies and orphans", """
        for _ in range(25):
            if os.fork() == 0:
                if os.fork() == 0:
                    os._exit(0)
                os._exit(0)
        held("none was waited for")
    """, "says", exits(0)),
    Abuse(28, "a detached child that outlives the program", """
        import signal, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                    signal.signal(number, signal.SIG_IGN)
                time.sleep(1.5)
                hole("outlived")
            os._exit(0)
        os.wait()
        held("left a child")
    """, "says", _prompt),
    Abuse(29, "ignoring signals, and sleeping", """
        import signal, time
        for number in range(1, 64):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        while True:
            time.sleep(60)
    """, "stopped", timed_out, _SHORT_S),
    Abuse(47, "core dumps", """
        import resource
        soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
        (held if hard == 0 else hole)((soft, hard))
    """),
    Abuse(49, "huge arguments and environment", """
        import subprocess
        refused("argument", subprocess.run, ["/bin/true", "x" * 50_000_000])
        refused("environment", lambda: subprocess.run(["/bin/true"], env={"X": "x" * 50_000_000}))
    """),
    Abuse(53, "endless recursion, down to the C stack", """
        sys.setrecursionlimit(1_000_000_000)
        class Deep:
            def __getattr__(self, name):
                return getattr(self, name + "x") if len(name) < 1 << 20 else getattr(self, "y")
            def __repr__(self):
                return repr(self)
        repr(Deep())
    """, "stopped"),
    Abuse(54, "crashing the interpreter", """
        import ctypes
        ctypes.string_at(0)
    """, "stopped"),
    Abuse(55, "a regular expression without end", """
        import re
        re.match(r"(a|a)*b", "a" * 60)
    """, "stopped", timed_out, _SHORT_S),
)  # fmt: skip

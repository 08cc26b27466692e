"""The process that runs programs as WebAssembly: without privileges, and of no worth to anyone who breaks out.

Started by wasi_process.py; nothing imports it where wasmtime may be missing. Once it has said in one line what
confines it, this passes, the output in frames as an engine's attached stream has them (output.py):

    stdin   NONCE SECONDS LENGTH \\n, and the program                   run this, for so long at most
    stdout  \\0 \\x1e ready \\n                                          it is begun
    both    \\0 \\x1e NONCE STATUS MICROSECONDS TIMED_OUT MEMORY \\n   nothing of it is left

Every program gets an instance of its own. Its time ends it wherever WebAssembly runs; while it waits in a call of the
host only the parent can end it, with the worker. When stdin ends the parent is gone, and so is the worker.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from wasmtime import Config, Engine, ExitTrap, Store, StoreContext, WasiConfig, WasmtimeError
from wasmtime.component import Component, Linker

from devassist.sandbox.confine import confine
from devassist.sandbox.wasi_process import UNLOADABLE

MARK = b"\0\x1e"
STDOUT, STDERR = 1, 2
_MIB = 1 << 20
_STACK = _MIB
_THREAD_STACK = 16 * _MIB
_SIGNALS = (("call stack exhausted", signal.SIGSEGV), ("out of bounds", signal.SIGSEGV), ("", signal.SIGABRT))
"""The signals that end a native interpreter where a trap ends this one."""

Write = Callable[[int, bytes], None]


def main() -> None:
    verb, *rest = sys.argv[1:]
    if verb == "compile":
        _compile(*rest)
    else:
        _serve(int(rest[0]), int(rest[1]))


def engine() -> Engine:
    """Compiled and loaded with the same configuration, or loading is refused."""
    config = Config()
    config.epoch_interruption = True
    config.max_wasm_stack = _STACK
    return Engine(config)


def _compile(source: str, target: str) -> None:
    """Make what `_serve` loads, and say which Python it is."""
    ours = engine()
    with open(source, "rb") as file:
        component = Component(ours, file.read())
    Runner(ours, component, 1 << 30).run(b"import platform\nprint(platform.python_version())", 60, _write_plain)
    with open(target, "xb") as file:
        file.write(component.serialize())
        file.flush()
        os.fsync(file.fileno())


def _serve(component: int, memory: int) -> NoReturn:
    """Run what stdin asks for in the component that is open as this file, with so many bytes for each program."""
    ours = engine()
    try:
        runner = Runner(ours, Component.deserialize_file(ours, f"/dev/fd/{component}"), memory)
    except WasmtimeError as error:
        print(error, file=sys.stderr)
        sys.exit(UNLOADABLE)
    os.close(component)
    null = os.open(os.devnull, os.O_RDWR)
    confined = confine(memory)
    # What would be loaded late is loaded now: later there is no file system.
    said: list[bytes] = []
    if runner.run(b"print(6 * 7)", 60, lambda _, data: said.append(data)) != (0, False, False):
        sys.exit(f"The component cannot run a program: {b''.join(said)[-500:]!r}")
    os.dup2(null, 2)
    _write_all(f"{confined}\n".encode())
    threading.Thread(target=_until_parent_ends, daemon=True).start()
    threading.stack_size(_THREAD_STACK)
    thread = threading.Thread(target=_take_orders, args=(runner,))
    thread.start()
    threading.stack_size(0)
    thread.join()
    os._exit(0)


class Runner:
    """Runs programs one after another."""

    def __init__(self, ours: Engine, component: Component, memory: int) -> None:
        self._engine, self._component, self._memory = ours, component, memory
        self._linker = Linker(ours)
        self._linker.add_wasip2()
        with self._linker.root() as root:
            root.add_func("ending", self._ending)
        self._ended = (1, False)

    def _ending(self, _: StoreContext, code: int, memory: bool) -> None:
        self._ended = (code, memory)

    def run(self, code: bytes, seconds: float, write: Write) -> tuple[int, bool, bool]:
        """Exit code (negative for a signal), whether its time was over, whether memory ran out."""
        store = Store(self._engine)
        store.set_limits(memory_size=self._memory)
        store.set_epoch_deadline(1)
        wasi = WasiConfig()
        wasi.stdout_custom = partial(write, STDOUT)
        wasi.stderr_custom = partial(write, STDERR)
        store.set_wasi(wasi)
        self._ended = (1, False)
        timer = _Timer(seconds, self._engine)
        try:
            run = self._linker.instantiate(store, self._component).get_func(store, "run")
            assert run is not None
            run(store, code)
        except ExitTrap:
            pass
        except WasmtimeError as error:
            timer.stop()
            reason = str(error).rpartition("wasm trap: ")[2].strip()
            if reason == "interrupt":
                return -signal.SIGKILL, True, False
            write(STDERR, f"The interpreter crashed: {reason}\n".encode())
            return -next(number for words, number in _SIGNALS if words in reason), False, False
        finally:
            timer.stop()
            store.close()
        return self._ended[0], False, self._ended[1]


class _Timer:
    """Ends whatever runs in the engine after so many seconds."""

    def __init__(self, seconds: float, ours: Engine) -> None:
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._wait, args=(seconds, ours), daemon=True)
        self._thread.start()

    def _wait(self, seconds: float, ours: Engine) -> None:
        if not self._stopped.wait(seconds):
            ours.increment_epoch()

    def stop(self) -> None:
        """Afterwards the epoch stands still: what runs next has its full time."""
        self._stopped.set()
        self._thread.join()


def _take_orders(runner: Runner) -> None:
    with open(0, "rb", closefd=False) as stdin:
        while line := stdin.readline():
            nonce, seconds, length = line.split()
            code = stdin.read(int(length))
            _write(STDOUT, MARK + b"ready\n")
            begun = time.monotonic()
            status, timed_out, memory = runner.run(code, float(seconds), _write)
            elapsed = (time.monotonic() - begun) * 1e6
            trailer = MARK + b"%s %d %d %d %d\n" % (nonce, status, elapsed, timed_out, memory)
            _write(STDOUT, trailer)
            _write(STDERR, trailer)
    os._exit(0)


def _until_parent_ends() -> NoReturn:
    poll = select.poll()
    poll.register(0, 0)  # nothing but the other side's end
    poll.poll()
    os._exit(0)


def _write_plain(stream: int, data: bytes) -> None:
    os.write(stream, data)


def _write(stream: int, data: bytes) -> None:
    _write_all(struct.pack(">BxxxI", stream, len(data)) + data)


def _write_all(data: bytes) -> None:
    try:
        while data:
            data = data[os.write(1, data) :]
    except OSError:
        os._exit(0)  # nobody reads any more

"""The program that runs programs inside WebAssembly. componentize-py makes a snapshot of an interpreter that has
imported this file (wasi_build.py); each execution begins from that snapshot, so nothing here is run twice.

There is no file system: what the snapshot has not imported cannot be imported later, and so all of the standard
library that works here is. Nothing of the package can be imported from here, and it runs on the component's Python.
"""

from __future__ import annotations

import asyncio
import atexit
import builtins
import contextlib
import gc
import importlib
import io
import itertools
import linecache
import os
import pkgutil
import random
import sys
import time
import types
import warnings
from collections.abc import Iterator
from typing import Any, NoReturn

_host: Any = importlib.import_module("wit_world")  # made for sandbox.wit

CODE = "/code/main.py"
_SLICE_S = 0.05
_LEFT_OUT = frozenset(
    "__main__ __phello__ _aix_support _android_support _apple_support _ios_support _osx_support _pydatetime _pydecimal "
    "_pyio _pyrepl antigravity ensurepip idlelib pydoc_data test tests this tkinter turtle turtledemo venv".split()
)
"""Modules that act when imported, that others stand in for, or that are of no use without files and windows."""
_ENCODINGS = (
    "ascii base64_codec big5 charmap cp1252 cp437 cp936 euc_jp euc_kr gb18030 gb2312 gbk hex_codec idna iso8859_1 "
    "iso8859_15 latin_1 punycode quopri_codec raw_unicode_escape rot_13 shift_jis unicode_escape utf_16 utf_16_be "
    "utf_16_le utf_32 utf_32_be utf_32_le utf_7 utf_8 utf_8_sig uu_codec zlib_codec"
).split()
"""Of more than a hundred."""


class Stream(io.TextIOWrapper):
    """Shows each line at once, so that a killed program has shown what it printed. One who prints very many pays for
    it with the last moment's: a call of the host for each would cost more than the program."""

    _at_once = 500
    _due = 0.0

    def write(self, text: str, /) -> int:
        written = super().write(text)
        if "\n" in text and (self._at_once or time.monotonic() >= self._due):
            self._at_once -= self._at_once > 0
            self.flush()
        return written

    def flush(self) -> None:
        super().flush()
        self._due = time.monotonic() + 0.02


class WitWorld:
    """What sandbox.wit exports."""

    def run(self, code: bytes) -> None:
        _SPARE.extend((True,) * 100_000)
        random.seed()  # the snapshot's state would give the same numbers every time
        _host.ending(*_run(code.decode("utf-8", "replace")))


_SPARE: list[bool] = []
"""Memory that is given back when there is none, to be able to say so."""


def _run(source: str) -> tuple[int, bool]:
    """What `python main.py` does: the exit code, and whether memory ran out."""
    sys.argv[:] = [CODE]
    linecache.cache[CODE] = (len(source), None, source.splitlines(keepends=True), CODE)
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=CODE, __builtins__=builtins)
    sys.modules["__main__"] = module
    ending = (0, False)
    try:
        exec(compile(source, CODE, "exec", dont_inherit=True), module.__dict__)
    except BaseException as error:  # noqa: BLE001 # SystemExit and KeyboardInterrupt end a program too
        ending = _report(error)
    try:
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage] # no interpreter ends here that would do it
    except BaseException as error:  # noqa: BLE001
        ending = _report(error)
    return ending if _flushed() else (ending[0] or 120, ending[1])


def _report(error: BaseException) -> tuple[int, bool]:
    """Show an exception without the frames of this file."""
    if isinstance(error, SystemExit):
        if error.code is None or isinstance(error.code, int):
            return (error.code or 0) & 0xFF, False
        with contextlib.suppress(Exception):
            print(error.code, file=sys.stderr)
        return 1, False
    memory = isinstance(error, MemoryError) and not error.args  # with words it is the parser's, of its stack
    if memory:
        _SPARE.clear()
    trace = error.__traceback__.tb_next if error.__traceback__ else None
    with contextlib.suppress(BaseException):
        sys.excepthook(type(error), error.with_traceback(trace), trace)
    return 1, memory


def _flushed() -> bool:
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # pyright: ignore[reportUnnecessaryComparison] # programs may set it so
                stream.flush()
    except (OSError, ValueError, AttributeError):
        return False
    return True


def _exit(status: int) -> NoReturn:
    """WASI's own exit knows success and failure only."""
    _flushed()
    _host.ending(status & 0xFF, False)
    _real_exit(status)


def _sleep(seconds: float, /) -> None:
    """In slices: between them a program can be ended, within a call of the host it cannot."""
    until = time.monotonic() + seconds
    _flushed()
    _real_sleep(min(seconds, _SLICE_S))
    while (left := until - time.monotonic()) > 0:
        _real_sleep(min(left, _SLICE_S))


class _Waiting:
    """The selector of an event loop that has nothing to wait for but time."""

    def select(self, timeout: float | None) -> tuple[()]:
        if timeout is None:
            while True:  # as a loop waits elsewhere for what never comes
                _sleep(3600)
        if timeout > 0:
            _sleep(timeout)
        return ()


class _Loop(asyncio.BaseEventLoop):
    """asyncio without sockets: tasks, timers, queues, locks."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Waiting()

    def _process_events(self, event_list: Any) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """No other thread could be asleep in `select`."""


def _modules(path: list[str] | None, prefix: str = "") -> Iterator[str]:
    """Names of what can be imported, packages before what is in them."""
    for found in pkgutil.iter_modules(path, prefix):
        parts = found.name.split(".")
        if not _LEFT_OUT.intersection(parts) and (parts[0] != "encodings" or parts[-1] in _ENCODINGS or not prefix):
            yield found.name
            if found.ispkg and found.name in sys.modules:
                yield from _modules(list(sys.modules[found.name].__path__), found.name + ".")


def _import_all() -> None:
    """All of the standard library that works here."""
    names = (name for name in sys.stdlib_module_names if name not in _LEFT_OUT)
    places = [path for path in sys.path if path.startswith("/python")]
    with warnings.catch_warnings(), contextlib.redirect_stdout(None):
        warnings.simplefilter("ignore")
        for name in itertools.chain(names, _modules(places)):
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    linecache.clearcache()


def _prepare() -> None:
    """What the snapshot holds besides modules."""
    sys.path.insert(0, "/code")
    for name in ("stdout", "stderr"):
        stream: io.TextIOWrapper = getattr(sys, name)
        # WASI writes some kilobytes of what it is given: without a buffer nobody would write the rest.
        buffer = io.BufferedWriter(io.FileIO(stream.fileno(), "wb", closefd=False))
        ours = Stream(buffer, "utf-8", "surrogateescape" if name == "stdout" else "backslashreplace", "\n")
        setattr(sys, name, ours)
        setattr(sys, f"__{name}__", ours)
    for name in ("exit", "quit"):
        if not hasattr(builtins, name):
            setattr(builtins, name, sys.exit)
    time.sleep = _sleep
    posix: Any = sys.modules["posix"]
    os._exit = posix._exit = _exit
    loops: Any = asyncio
    loops.EventLoop = loops.SelectorEventLoop = loops.new_event_loop = loops.events.new_event_loop = _Loop
    gc.collect()
    gc.freeze()


_real_exit, _real_sleep = os._exit, time.sleep
_import_all()
_prepare()

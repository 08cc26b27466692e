"""The file ``keys.db`` of the keys directory: readable by its owner only, durable, leaving nothing behind of what is
deleted. Erasure domains and API keys stand in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import apsw

from devassist.core.errors import Unavailable
from devassist.store.backup_files import sync
from devassist.store.database import Database, connect

FILE = "keys.db"

T = TypeVar("T")


def connect_keys(path: Path, **more: str) -> Database:
    """``temp_store``: the copy that VACUUM makes holds every key, so it stays in memory."""
    return connect(path, secure_delete="ON", journal_mode="TRUNCATE", synchronous="FULL", temp_store="MEMORY", **more)


def prepare(directory: Path) -> Path:
    """Make directory and file readable by their owner only, and durable in their parents."""
    if not directory.is_dir():
        directory.mkdir(mode=0o700, parents=True)
        directory.chmod(0o700)  # whatever the umask took
        sync(directory.parent)
    path = directory / FILE
    if not path.exists():
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.fchmod(handle, 0o600)
        os.close(handle)
        sync(directory)
    return path


def guarded(work: Callable[[], T], *, but: tuple[type[apsw.Error], ...] = ()) -> T:
    """Raises Unavailable where SQLite fails; the errors ``but`` are the caller's business."""
    try:
        return work()
    except but:
        raise
    except apsw.Error as error:
        raise Unavailable(f"the key store failed: {type(error).__name__}: {error}") from None

"""The data directory's lock: held by the one process that drives runs on SQLite."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from devassist.core.errors import DataDirInUse

FILE = "lock"


class DirectoryLock:
    """``flock`` on ``<data_dir>/lock``; the kernel lets go of it when the process dies, however it dies. Holding it
    proves that every older driver on this directory is dead."""

    def __init__(self, data_dir: Path) -> None:
        """Raises DataDirInUse naming the holder's pid."""
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = data_dir / FILE
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.read(self._fd, 32).decode(errors="replace").strip()
            os.close(self._fd)
            raise DataDirInUse(f"process {pid or 'unknown'} drives runs on {data_dir}; stop it, or use it") from None
        os.ftruncate(self._fd, 0)
        os.write(self._fd, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

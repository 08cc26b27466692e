"""The directory where sandboxes get their programs from, and by which leftovers of a dead process are told from the
sandboxes of a living one.

Under a base that several processes may share, each has a directory with a lock that the kernel lets go when it dies.
The engine mounts what lies in it, so the base must have the same path for the engine as for us.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from devassist.core.errors import SandboxUnavailable

LABEL = "devassist.sandbox"
OWNER = "devassist.sandbox.owner"
_PREFIX = "own-"
_PASSABLE = 0o711  # for the container's user to pass through, not to look around: names below are not to be guessed


class Home:
    """One owner under ``base``. Blocking, for moments."""

    def __init__(self, base: Path) -> None:
        self.base = base.absolute()
        self._lock: int | None = None
        self.owner = ""
        self.id = ""

    def claim(self) -> None:
        """Become an owner. Raises SandboxUnavailable where the base cannot be used."""
        try:
            if not self.base.exists():
                self.base.mkdir(parents=True, exist_ok=True)
                self.base.chmod(_PASSABLE)
            with self._alone():
                self.id = self._own_id()
                self.owner = secrets.token_hex(8)
                self._dir.mkdir()
                self._dir.chmod(_PASSABLE)
                self._lock = os.open(self._dir / "lock", os.O_CREAT | os.O_RDWR, 0o600)
                fcntl.flock(self._lock, fcntl.LOCK_EX)
        except OSError as error:
            raise SandboxUnavailable(f"{self.base} cannot hold the sandbox's files: {error.strerror}") from None

    @property
    def labels(self) -> dict[str, str]:
        return {LABEL: self.id, OWNER: self.owner}

    def lives(self, owner: str) -> bool:
        """Whether a process holds this owner's lock; the name comes from a label, so it may be anything."""
        if not owner.isalnum():
            return False
        try:
            fd = os.open(self.base / f"{_PREFIX}{owner}" / "lock", os.O_RDWR)
        except FileNotFoundError:
            return False
        except OSError:
            return True  # another user's: whoever cannot tell leaves it alone
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def clear_dead(self) -> None:
        """Remove the directories of dead owners: after their containers, which had them mounted."""
        with self._alone():
            for path in self.base.glob(f"{_PREFIX}*"):
                if not self.lives(path.name.removeprefix(_PREFIX)):
                    shutil.rmtree(path, ignore_errors=True)

    def make(self, slot: str) -> Path:
        """An empty directory for one program."""
        path = self._dir / slot
        path.mkdir()
        path.chmod(0o755)
        return path

    def write(self, slot: str, code: str) -> None:
        """The program; half characters, which no file can hold, are replaced."""
        fd = os.open(self._dir / slot / "main.py", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, 0o644)
            file.write(code.encode("utf-8", "replace"))

    def drop(self, slot: str) -> None:
        shutil.rmtree(self._dir / slot, ignore_errors=True)

    def release(self) -> None:
        """Own no more; idempotent."""
        if self._lock is not None:
            shutil.rmtree(self._dir, ignore_errors=True)
            os.close(self._lock)
            self._lock = None
            self.owner = ""

    @property
    def _dir(self) -> Path:
        return self.base / f"{_PREFIX}{self.owner}"

    def _own_id(self) -> str:
        """What this base is called in labels, whatever its path."""
        path = self.base / "id"
        if not path.exists():
            path.write_text(secrets.token_hex(8))
        return path.read_text().strip()

    @contextmanager
    def _alone(self) -> Generator[None]:
        fd = os.open(self.base / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

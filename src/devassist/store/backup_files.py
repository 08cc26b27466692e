"""Files that must be whole or not there: copied with their hash, written at once, made durable, moved aside."""

from __future__ import annotations

import os
import shutil
from hashlib import sha256
from pathlib import Path

from devassist.core.errors import Conflict, InvalidRequest, Unavailable

COMPANIONS = ("", "-wal", "-shm", "-journal")
"""What SQLite keeps beside a database, under names that it goes by."""
_PIECE = 1 << 20


def private(directory: Path) -> None:
    """Make it for its owner alone, or take an empty one. Raises Conflict, Unavailable."""
    try:
        if directory.is_dir():
            if any(directory.iterdir()):
                raise Conflict(f"{directory} is not empty: a backup has a directory of its own")
        else:
            directory.mkdir(mode=0o700, parents=True)
        directory.chmod(0o700)
    except OSError as error:
        raise Unavailable(f"{directory} cannot be made: {error.strerror}") from None


def apart(target: Path, directories: dict[str, Path]) -> None:
    """A backup within what it is a backup of is lost with it. Raises InvalidRequest naming which of ``directories``,
    keyed by what they are called, it is."""
    for called, directory in directories.items():
        if target.resolve().is_relative_to(directory.resolve()):
            raise InvalidRequest(
                f"{target} lies in the {called} directory {directory}, and would be lost with it: "
                "give a directory outside of it"
            )


def absent(directory: Path) -> list[Path]:
    """What has to be made so that ``directory`` is there: itself first, then its parents."""
    return [path for path in (directory, *directory.parents) if not path.exists()]


def unmake(made: list[Path], only: str) -> None:
    """Remove directories that ``absent`` named, as long as nothing but a file ``only`` is in the first of them."""
    if not made or not made[0].is_dir() or any(path.name != only for path in made[0].iterdir()):
        return
    (made[0] / only).unlink(missing_ok=True)
    for path in made:
        try:
            path.rmdir()
        except OSError:  # somebody has put something there meanwhile, which stays
            return


def sync(path: Path) -> None:
    """Make a file's bytes, or a directory's names, durable."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def digest(path: Path) -> tuple[str, int]:
    """SHA-256 (hex) and size of a file."""
    return _through(path, None)


def copied(source: Path, target: Path) -> tuple[str, int]:
    """Copy to a new file, readable by its owner only and durable; SHA-256 and size of what was copied."""
    return _through(source, target)


def _through(source: Path, target: Path | None) -> tuple[str, int]:
    found, size = sha256(), 0
    with source.open("rb") as read:
        out = None if target is None else os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            while piece := read.read(_PIECE):
                found.update(piece)
                size += len(piece)
                if out is not None:
                    _write(out, piece)
            if out is not None:
                os.fsync(out)
        finally:
            if out is not None:
                os.close(out)
    return found.hexdigest(), size


def _write(handle: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left) :]


def write_whole(path: Path, text: str) -> None:
    """A crash leaves what was there before, or all of it; durable when the call returns."""
    exchange(path, text)
    sync(path.parent)


def exchange(path: Path, text: str) -> None:
    """A crash leaves what was there before, or all of it, also for a while after the call has returned."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        _write(handle, text.encode())
        os.fsync(handle)
    finally:
        os.close(handle)
    fresh.replace(path)


def move_aside(database: Path, into: Path, name: str) -> None:
    """Move a database and what SQLite keeps beside it, which belongs to it, to ``into`` as ``name``. Its log goes
    first: a crash in between must not leave it where another database will stand."""
    for end in sorted(COMPANIONS, reverse=True):
        there = database.with_name(f"{database.name}{end}")
        if there.exists():
            shutil.move(there, into / f"{name}{end}")
    sync(into)


def remove(database: Path) -> None:
    for end in COMPANIONS:
        database.with_name(f"{database.name}{end}").unlink(missing_ok=True)

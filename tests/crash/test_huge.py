"""C13: very much said, asked and done."""

from __future__ import annotations

from pathlib import Path

from devassist.store.sealing import MAX_TEXT
from tests.crash.http import Stream, asked, port_of, request
from tests.crash.huge import EACH, RESULT_BYTES, ROUNDS
from tests.crash.nursery import Process, process

PAGE = 500
MOST_MESSAGE = 64 * 1024


def _most_memory(process: Process) -> int:
    """The most that the process ever held, in bytes."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


async def test_a_huge_result_input_and_run(tmp_path: Path, nursery: Path) -> None:
    """A result of 50 MB reaches readers in messages of bounded size that name where the whole is; an input over the
    limit is refused before anything is stored; a run of two thousand calls is paged. The process grows by no more
    than three times the largest text that may be stored."""
    async with process(nursery, "huge:run", str(tmp_path), tmp_path / "log") as made:
        port = await port_of(tmp_path)
        before = _most_memory(made)
        big = await _watched(port, "big")
        grown = _most_memory(made) - before
        run = await asked(port, "GET", f"/runs/{big.trace_id}")
        assert (run["status"], run["answer"]) == ("succeeded", "Big.")
        ref = next(cut["ref"] for cut in run["steps"][0]["truncated"] if cut["path"] == "/observation")
        assert await _size(port, f"/runs/{big.trace_id}/payloads/{ref}") == RESULT_BYTES + len('""')
        assert grown < 3 * MAX_TEXT

        reader, writer = await request(port, "POST", "/agent", {"message": "x" * 5_000_000})
        assert (await reader.readline()).split()[1] == b"413"
        writer.close()
        assert len((await asked(port, "GET", "/admin/agent-traces"))["traces"]) == 1

        many = await _watched(port, "many")
        assert sum('"type":"step"' in line for line in many.lines) == ROUNDS * EACH + 1
        last = ROUNDS * EACH - PAGE
        for first in (0, last):
            steps = (await asked(port, "GET", f"/runs/{many.trace_id}?first_step={first}"))["steps"]
            numbers = [(step["step_index"], step["call_index"]) for step in steps]
            assert numbers == [divmod(number, EACH) for number in range(first, first + PAGE)]
            assert all(step["error"] is None for step in steps)


async def _watched(port: int, message: str) -> Stream:
    """A run followed to its end; no message was larger than it may be."""
    stream = Stream()
    await stream.follow(port, {"message": message, "agent": "many"})
    assert any('"type":"done"' in line for line in stream.lines)
    assert max(len(line.encode()) for line in stream.lines) <= MOST_MESSAGE
    return stream


async def _size(port: int, path: str) -> int:
    reader, writer = await request(port, "GET", path)
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.split()[1] == b"200"
    size = 0
    while chunk := await reader.read(1 << 20):
        size += len(chunk)
    writer.close()
    return size

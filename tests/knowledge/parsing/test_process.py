"""Parsing in a process of its own: bounded, ended when it must be, replaced, and never in the way of the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from devassist.knowledge.parsing.document import Limits, ParsedDocument, Quarantine
from devassist.knowledge.parsing.parse import parse
from devassist.knowledge.parsing.process import ParserProcess
from tests.knowledge.parsing import files

LAW = files.law_markdown().encode()
NESTED = "<div>" * 5_000 + "text"
SLOW = files.typeset([f"第{n}段。" + "文字" * 400 for n in range(300)])  # several seconds of processor time


async def test_one_child_serves_many_files() -> None:
    """The results are those of this process, and one child gives them all."""
    async with ParserProcess() as parser:
        assert parser.pid is None
        pids: set[int | None] = set()
        for data, name in ((LAW, "a.md"), (files.law_docx(), "a.docx"), (files.typeset(["甲乙"]), "a.pdf"), (b"", "b")):
            assert await parser.parse(data, name) == parse(data, name)
            pids.add(parser.pid)
        assert len(pids) == 1


async def test_files_asked_for_at_once_each_get_their_own_result() -> None:
    """Callers that come together take turns."""
    async with ParserProcess() as parser:
        texts = [f"# T{n}\n\ntext {n}\n" for n in range(12)]
        found = await asyncio.gather(*(parser.parse(text.encode(), "a.md") for text in texts))
        assert [each.clauses[0].text for each in found if isinstance(each, ParsedDocument)] == [
            f"text {n}" for n in range(12)
        ]


async def test_a_file_that_takes_too_long_is_given_up() -> None:
    """At the end of its time the child is ended, the file refused as timeout, and the next file read by another one."""
    async with ParserProcess(Limits(wall_s=30)) as parser:
        assert isinstance(await parser.parse(LAW, "a.md"), ParsedDocument)
        first = parser.pid
        assert first is not None
        os.kill(first, signal.SIGSTOP)  # whatever the file, a stopped child does not answer
        parser._limits = replace(parser._limits, wall_s=0.2)
        result = await parser.parse(LAW, "a.md")
        assert isinstance(result, Quarantine)
        assert result.code == "timeout"
        parser._limits = Limits()
        assert isinstance(await parser.parse(LAW, "a.md"), ParsedDocument)
        assert parser.pid != first
        assert not _runs(first)


async def test_processor_time_is_bounded_by_the_kernel() -> None:
    """A file that needs more processor time than is allowed ends its child, not the service; the next one is read."""
    async with ParserProcess(Limits(cpu_s=0)) as parser:
        result = await parser.parse(SLOW, "a.pdf")
        assert isinstance(result, Quarantine)
        assert result.code == "timeout"
        assert isinstance(await parser.parse(LAW, "a.md"), ParsedDocument)


async def test_memory_is_bounded() -> None:
    """A file that needs more memory than is allowed is refused, and the next one is read."""
    roomy = Limits()
    async with ParserProcess(replace(roomy, memory_bytes=160 << 20)) as parser:
        result = await parser.parse(("# T\n\n" + "word " * 6_000_000).encode(), "a.md")
        assert isinstance(result, Quarantine)
        assert result.code in ("memory", "crashed")
        parser._limits = roomy
        assert isinstance(await parser.parse(LAW, "a.md"), ParsedDocument)


async def test_a_killed_child_is_replaced() -> None:
    """Between two files, a child that was killed is nobody's loss: the next file is not blamed."""
    async with ParserProcess() as parser:
        assert isinstance(await parser.parse(LAW, "a.md"), ParsedDocument)
        first = parser.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        assert isinstance(await parser.parse(LAW, "a.md"), ParsedDocument)
        assert parser.pid != first


async def test_the_service_loads_no_parser() -> None:
    """The side of the service knows results and frames; what reads files is in the child alone."""
    heavy = "docx lxml pypdfium2 selectolax charset_normalizer markdown_it".split()
    code = f"import sys; import devassist.knowledge.parsing.process; print([m for m in {heavy} if m in sys.modules])"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    assert said.decode().strip() == "[]"


async def test_a_cancelled_file_leaves_nothing_behind() -> None:
    """Cancelling ends the child, so that its reply cannot be taken for the next file's."""
    async with ParserProcess() as parser:
        assert isinstance(await parser.parse(b"# A\n\na\n", "a.md"), ParsedDocument)
        first = parser.pid
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        task = asyncio.create_task(parser.parse(b"# B\n\nb\n", "b.md"))
        await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        result = await parser.parse(b"# C\n\nc\n", "c.md")
        assert isinstance(result, ParsedDocument)
        assert result.title == "C"


async def test_close_ends_the_child() -> None:
    """Nothing runs on after ``close``."""
    parser = ParserProcess()
    await parser.parse(LAW, "a.md")
    pid = parser.pid
    assert pid is not None
    await parser.close()
    assert not _runs(pid)
    await parser.close()


async def test_a_file_over_the_limit_does_not_reach_the_child() -> None:
    """Its size alone refuses it, before any process is started."""
    parser = ParserProcess(Limits(file_bytes=10))
    result = await parser.parse(b"x" * 11, "a.txt")
    assert isinstance(result, Quarantine)
    assert result.code == "too_large"
    assert parser.pid is None


async def test_deep_nesting_is_refused() -> None:
    """A page of thousands of nested elements is refused, and its child goes on."""
    async with ParserProcess() as parser:
        result = await parser.parse(NESTED.encode(), "a.html")
        assert isinstance(result, Quarantine)
        assert result.code == "malformed"
        assert isinstance(await parser.parse(LAW, "a.md"), ParsedDocument)


@pytest.mark.parametrize(
    ("attempt", "event"),
    [
        ("import socket; socket.socket()", "socket"),
        ("import subprocess; subprocess.Popen(['true'])", "subprocess"),
        (f"open({str(Path('/tmp/never-written'))!r}, 'w')", "open"),
        ("import os; os.fork()", "os.fork"),
    ],
)
async def test_the_child_uses_neither_network_nor_programs_nor_files(attempt: str, event: str) -> None:
    """What a parser does not need is refused to it, whatever a library tries."""
    code = (
        "import sys; from devassist.knowledge.parsing import child; child._confine();"
        f"sys.addaudithook(child._refuse)\ntry:\n    {attempt}\nexcept PermissionError as error:\n    print(error)"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    assert event in said.decode()


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True

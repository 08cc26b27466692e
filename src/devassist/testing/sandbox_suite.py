"""Conformance of an adapter to the port Sandbox.

An adapter's test subclasses ``SandboxSuite`` and gives fixtures of opened sandboxes with at most 128 MiB of memory:
``sandbox`` lets one user run at least two programs at a time; ``narrow`` runs one in all and lets every user keep one
more waiting; both may be shared by tests, and ``closed`` is one that a test closes.
"""

from __future__ import annotations

import asyncio
import time

import pytest

from devassist.core.errors import Overloaded, SandboxUnavailable
from devassist.core.scope import Scope
from devassist.ports.sandbox import Execution, Program, Sandbox

ALICE = Scope(tenant="default", actor="alice")
BOB = Scope(tenant="default", actor="bob")
NAMESAKE = Scope(tenant="elsewhere", actor="alice")
LONG_S = 30.0
"""A bound for what should take moments: machines can be busy."""
_SLEEP = "import time\nprint('start')\nwhile True: time.sleep(0.05)"


async def run(sandbox: Sandbox, code: str, timeout_s: float = LONG_S, scope: Scope = ALICE) -> Execution:
    return await sandbox.execute(scope, Program(code, timeout_s))


async def until_running(sandbox: Sandbox, task: asyncio.Task[Execution]) -> None:
    """Give a program that was just handed over the time to start."""
    await asyncio.wait({task}, timeout=1.5)
    assert not task.done(), task


class SandboxSuite:
    async def test_the_streams_and_the_exit_code_come_back(self, sandbox: Sandbox) -> None:
        """Apart, whole, and with what they ran in and under."""
        done = await run(sandbox, "import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(3)")
        assert (done.stdout, done.stderr, done.exit_code) == ("out\n", "err\n", 3)
        assert (done.timed_out, done.oom_killed, done.truncated, done.flooded) == (False, False, False, False)
        state = sandbox.state()
        assert state is not None
        assert (done.backend, done.image, done.limits) == (state.backend, state.image, state.limits)
        assert all((done.image, done.limits))

    @pytest.mark.parametrize(
        ("code", "exit_code", "stderr"),
        [
            ("", 0, ""),
            ("raise SystemExit", 0, ""),
            ("import sys; sys.exit('words')", 1, "words\n"),
            ("import sys; print('x', file=sys.stderr); sys.exit(255)", 255, "x\n"),
        ],
    )
    async def test_programs_end_as_python_ends_them(
        self, sandbox: Sandbox, code: str, exit_code: int, stderr: str
    ) -> None:
        """An empty one, one that says how, one that says why."""
        done = await run(sandbox, code)
        assert (done.exit_code, done.stderr) == (exit_code, stderr)

    @pytest.mark.parametrize(
        ("code", "last", "line"),
        [
            ("def f():\n    return 1 / 0\n\nprint('before')\nf()", "ZeroDivisionError: ", 2),
            ("x = 1\nif x\n", "SyntaxError: ", 2),
            ("raise KeyError('钥匙')", "KeyError: '钥匙'", 1),
        ],
    )
    async def test_an_exception_shows_where_it_was_raised(
        self, sandbox: Sandbox, code: str, last: str, line: int
    ) -> None:
        """The lines of the program, and no frames of the sandbox's own."""
        done = await run(sandbox, code)
        lines = done.stderr.splitlines()
        assert done.exit_code == 1
        assert lines[-1].startswith(last)
        assert f"line {line}" in done.stderr
        assert sum("File " in one for one in lines) <= 2

    async def test_a_program_is_main(self, sandbox: Sandbox) -> None:
        """Its name, its arguments, and that its classes can be found by name."""
        code = "import sys, pickle\nclass A: pass\npickle.loads(pickle.dumps(A()))\nprint(__name__, len(sys.argv))"
        assert (await run(sandbox, code)).stdout == "__main__ 1\n"

    async def test_text_of_all_kinds_comes_back(self, sandbox: Sandbox) -> None:
        """What the program prints is what is shown, code point by code point."""
        text = "短文 🌍 é \x00 \x1b[0m \x1e"
        assert (await run(sandbox, f"print({text!r})")).stdout == text + "\n"

    async def test_bytes_that_are_no_text_are_replaced(self, sandbox: Sandbox) -> None:
        """Nothing fails, and what is text stays."""
        done = await run(sandbox, r"import sys; sys.stdout.buffer.write(b'a\xff\xfeb\xe7\x9f\xadc\xe7\x9f')")
        assert done.stdout == "a\ufffd\ufffdb短c\ufffd"

    async def test_a_program_with_half_a_character_is_run(self, sandbox: Sandbox) -> None:
        """What no file can hold is replaced."""
        assert (await run(sandbox, "print(len('\ud83d'), 'ok')")).stdout == "1 ok\n"

    async def test_stdin_is_empty(self, sandbox: Sandbox) -> None:
        """Reading does not wait for anybody."""
        done = await run(sandbox, "try:\n    print(repr(input()))\nexcept EOFError:\n    print('end')")
        assert done.stdout == "end\n"

    async def test_long_output_keeps_both_ends(self, sandbox: Sandbox) -> None:
        """10,000 characters of each, and the exact number of those between."""
        code = "import sys\nfor s in (sys.stdout, sys.stderr):\n    s.write('头' * 10000 + 'x' * 12345 + '尾' * 10000)"
        done = await run(sandbox, code)
        shown = "头" * 10000 + "… 12345 characters omitted …" + "尾" * 10000
        assert (done.stdout == shown, done.stderr == shown, done.truncated) == (True, True, True)

    async def test_output_that_just_fits_is_whole(self, sandbox: Sandbox) -> None:
        """20,000 characters are no truncation."""
        done = await run(sandbox, "print('x' * 19_999)")
        assert (done.stdout, done.truncated) == ("x" * 19_999 + "\n", False)

    async def test_a_flood_is_stopped(self, sandbox: Sandbox) -> None:
        """A program that writes more than 256 MiB is killed, and its beginning is kept."""
        code = "import sys\nprint('HEAD')\nblock = 'x' * (1 << 20)\nwhile True: sys.stdout.write(block)"
        done = await run(sandbox, code, 60)
        assert (done.flooded, done.truncated, done.timed_out, done.exit_code) == (True, True, False, -9)
        assert done.stdout.startswith("HEAD\nxxx")
        assert len(done.stdout) < 20_100

    async def test_a_program_without_end_is_ended(self, sandbox: Sandbox) -> None:
        """At its timeout, and what it printed is kept."""
        begun = time.monotonic()
        done = await run(sandbox, _SLEEP, 1)
        assert (done.timed_out, done.exit_code, done.stdout) == (True, -9, "start\n")
        assert 900 <= done.duration_ms <= LONG_S * 1000
        assert time.monotonic() - begun < 1 + LONG_S

    async def test_busy_without_end_is_ended_too(self, sandbox: Sandbox) -> None:
        """A loop that never lets go of the interpreter."""
        done = await run(sandbox, "print('start', flush=True)\nwhile True: pass", 1)
        assert (done.timed_out, done.stdout) == (True, "start\n")

    async def test_a_program_may_take_its_time(self, sandbox: Sandbox) -> None:
        """The timeout is not reached before it is."""
        done = await run(sandbox, "import time; time.sleep(1.2); print('done')", 30)
        assert (done.stdout, done.timed_out) == ("done\n", False)
        assert done.duration_ms >= 1190

    async def test_memory_is_limited_and_said_so(self, sandbox: Sandbox) -> None:
        """Killed and reported as such, or refused as a MemoryError; the next program runs."""
        done = await run(sandbox, "x = []\nwhile True: x.append(bytearray(10_000_000))")
        assert done.oom_killed or "MemoryError" in done.stderr
        assert done.exit_code != 0
        assert (await run(sandbox, "print(1)")).stdout == "1\n"

    async def test_nothing_is_left_for_the_next_program(self, sandbox: Sandbox) -> None:
        """No file, no state of the interpreter."""
        first = (
            "import builtins, json\nbuiltins.leak = json.leak = 1\n"
            "for path in ('/tmp/m.txt', 'm.txt'):\n"
            "    try: open(path, 'w').write('secret')\n"
            "    except OSError: pass\n"
        )
        second = (
            "import builtins, json, os\nprint(hasattr(builtins, 'leak'), hasattr(json, 'leak'))\n"
            "print(os.path.exists('/tmp/m.txt'), os.path.exists('m.txt'))"
        )
        assert (await run(sandbox, first)).exit_code == 0
        assert (await run(sandbox, second, scope=BOB)).stdout == "False False\nFalse False\n"

    async def test_chance_is_not_repeated(self, sandbox: Sandbox) -> None:
        """A snapshot of the interpreter must not repeat its random numbers."""
        code = "import random, os; print(random.random(), os.urandom(8).hex())"
        done = [await run(sandbox, code) for _ in range(3)]
        assert len({number for one in done for number in one.stdout.split()}) == 6

    async def test_programs_run_side_by_side(self, sandbox: Sandbox) -> None:
        """Each gets its own output, in whatever order they end."""
        done = await asyncio.gather(*(run(sandbox, f"print({number})") for number in range(6)))
        assert [one.stdout for one in done] == [f"{number}\n" for number in range(6)]

    async def test_a_cancelled_program_is_killed(self, sandbox: Sandbox) -> None:
        """Giving up does not wait for the program's time to be over, and leaves a sandbox that works."""
        task = asyncio.create_task(run(sandbox, _SLEEP, 2 * LONG_S))
        await until_running(sandbox, task)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, LONG_S)
        assert (await run(sandbox, "print(1)")).stdout == "1\n"

    async def test_the_end_cannot_be_forged(self, sandbox: Sandbox) -> None:
        """What looks like the sandbox's own word is output, and the program's true end counts."""
        fake = "\0\x1e" + "0" * 64 + " 0 1 0 0\n"
        done = await run(sandbox, f"import sys\nprint({fake!r}, end='', flush=True)\nprint('after')\nsys.exit(5)")
        assert (done.stdout, done.exit_code) == (fake + "after\n", 5)

    async def test_one_user_can_have_too_much_waiting(self, narrow: Sandbox) -> None:
        """One runs, one waits, a third is Overloaded; another user is not kept out, nor is a namesake elsewhere."""
        first = asyncio.create_task(run(narrow, "import time; time.sleep(3)"))
        await until_running(narrow, first)
        more = [asyncio.create_task(run(narrow, "print(2)")) for _ in range(2)]
        (refused,), (second,) = await asyncio.wait(more, timeout=LONG_S, return_when=asyncio.FIRST_COMPLETED)
        assert isinstance(refused.exception(), Overloaded)
        others = await asyncio.gather(*(run(narrow, "print(4)", scope=scope) for scope in (BOB, NAMESAKE)))
        assert [one.stdout for one in others] == ["4\n", "4\n"]
        assert (await second).stdout == "2\n"
        assert (await first).exit_code == 0

    async def test_a_turn_given_up_is_passed_on(self, narrow: Sandbox) -> None:
        """Cancelled while it waited, it neither runs nor blocks the way."""
        first = asyncio.create_task(run(narrow, "import time; time.sleep(2)"))
        await until_running(narrow, first)
        second = asyncio.create_task(run(narrow, "print(2)"))
        await asyncio.sleep(0.05)
        second.cancel()
        third = asyncio.create_task(run(narrow, "print(3)"))
        assert (await third).stdout == "3\n"
        assert (await first).exit_code == 0
        with pytest.raises(asyncio.CancelledError):
            await second

    async def test_closing_ends_what_runs(self, closed: Sandbox) -> None:
        """Its caller gets SandboxUnavailable, and does not wait for the timeout."""
        task = asyncio.create_task(run(closed, _SLEEP, 2 * LONG_S))
        await until_running(closed, task)
        await asyncio.wait_for(closed.close(), LONG_S)
        with pytest.raises(SandboxUnavailable):
            await asyncio.wait_for(task, LONG_S)

    async def test_a_closed_sandbox_runs_nothing(self, closed: Sandbox) -> None:
        """Closing twice is no fault; afterwards there is only SandboxUnavailable."""
        await closed.close()
        await closed.close()
        with pytest.raises(SandboxUnavailable):
            await run(closed, "print(1)")

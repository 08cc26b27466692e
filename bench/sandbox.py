"""``make bench-sandbox``: what a program in a fresh sandbox costs, beside `docker run`, docker-py, llm-sandbox and
autogen on the same engine.

Latency is interleaved: in every round each contestant runs the smallest program once, with the pool at rest. Then
throughput beside a thin client of the engine that makes containers with the same limits, 500 programs with 32 in
flight, and what is left running after a time-out. Progress on stderr; stdout ends in FIGURE lines.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import Any

from bench.child import Failed
from bench.figures import Figure, Spread, ratios, table
from bench.machine import warnings, workplace
from bench.sandbox_peers import HOME, PACKAGES, Peer, image, installed
from devassist.core.errors import SandboxUnavailable
from devassist.core.scope import Scope
from devassist.ports.sandbox import Program
from devassist.sandbox.docker import SOCKET, DockerSandbox
from devassist.sandbox.engine import Engine
from devassist.sandbox.home import LABEL
from devassist.sandbox.image import IMAGE
from devassist.sandbox.policy import Policy, container

PARTS = ("latency", "throughput", "crowd", "timeout")
SMALL = "print(1)"
HIDING = """import os, sys, time
for _ in range(5):
    if os.fork() == 0:
        os.setsid()
        os.execvp("python3", ["python3", "-c", "import time; time.sleep(60)", "{marker}"])
time.sleep(60)
"""
SLOW = ("llm-sandbox", "autogen")
AT_ONCE = 4
CROWD, IN_FLIGHT = 500, 32
WARM, COLD, CLI, SDK = "warm", "cold", "docker run", "docker-py"
OURS, THIN, SHORT = "devassist", "thin client", "thin client, no network made"
Times = dict[str, list[float]]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@asynccontextmanager
async def opened(home: Path, pool_size: int) -> AsyncGenerator[DockerSandbox]:
    sandbox = DockerSandbox(IMAGE, home, pool_size=pool_size)
    await sandbox.open()
    try:
        yield sandbox
    finally:
        await sandbox.close()


async def timed(work: Callable[[], Awaitable[Any]]) -> float:
    began = perf_counter()
    await work()
    return (perf_counter() - began) * 1000


async def run(sandbox: DockerSandbox, user: int = 0) -> None:
    done = await sandbox.execute(Scope("default", f"bench-{user}"), Program(SMALL, 30.0))
    if done.stdout != "1\n":
        raise Failed(f"a program was lost: {done}")


async def containers(home: Path) -> int:
    engine = Engine(SOCKET)
    await engine.open()
    try:
        return len(await engine.containers(LABEL, (home / "id").read_text().strip()))
    finally:
        await engine.close()


async def at_rest(home: Path, sandbox: DockerSandbox, size: int) -> None:
    """The pool is full and nothing else is left. Raises Failed."""
    for _ in range(1200):
        if sandbox.state().warm == size and await containers(home) == size:
            return
        await asyncio.sleep(0.05)
    raise Failed(f"{await containers(home)} containers are left, not {size}")


async def cleared(home: Path, sandbox: DockerSandbox) -> None:
    """Only what is kept ready is left. Raises Failed."""
    for _ in range(3000):
        if await containers(home) == sandbox.state().warm:
            return
        await asyncio.sleep(0.02)
    raise Failed(f"{await containers(home)} containers are left, {sandbox.state().warm} of them ready")


async def docker_run() -> None:
    command = ("docker", "run", "--rm", "--network", "none", IMAGE, "python3", "-c", SMALL)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    if said != b"1\n":
        raise Failed(f"docker run said {said!r}")


async def latency(place: Path, peers: dict[str, Peer], rounds: int, slow_rounds: int) -> tuple[Times, Times]:
    """Milliseconds of each round: until the sandbox was given up, as far as callers wait for it, and until the output
    was there."""
    whole, until = dict[str, list[float]](), dict[str, list[float]]()

    def note(name: str, ms: float, result_ms: float | None = None) -> None:
        whole.setdefault(name, []).append(ms)
        until.setdefault(name, []).append(ms if result_ms is None else result_ms)

    warm_home, cold_home = place / "warm", place / "cold"
    async with opened(warm_home, 2) as warm, opened(cold_home, 0) as cold:
        for number in range(rounds):
            turns: list[str] = [WARM, COLD, CLI, *([SDK] if SDK in peers else [])]
            turns = turns[number % len(turns) :] + turns[: number % len(turns)]
            turns += [name for name in SLOW if name in peers and number < slow_rounds]
            for name in turns:
                await at_rest(warm_home, warm, 2)
                await at_rest(cold_home, cold, 0)
                if name in peers:
                    told = await asyncio.to_thread(peers[name].ask, "fresh", SMALL)
                    note(name, told["ms"], told["result_ms"])
                else:
                    work = {WARM: lambda: run(warm), COLD: lambda: run(cold), CLI: docker_run}[name]
                    note(name, await timed(work))
            say(f"latency: round {number + 1} of {rounds}")
    return whole, until


class Thin:
    """The least that a cold client does: create, attach, start, read, remove, under the limits of the sandbox and on
    the network `none`. ``short``: it has also found out what the sandbox does, that an engine which is told to disable
    networks makes none, not even one without a way out."""

    def __init__(self, engine: Engine, place: Path, *, short: bool) -> None:
        self._engine = engine
        place.mkdir()
        self._body = container(Policy(), IMAGE, place, {}, warm=False) | {"OpenStdin": False, "AttachStdin": False}
        self._body |= {"Entrypoint": ["python3"], "Cmd": ["-I", "-c", SMALL], "NetworkDisabled": short}
        self._made = 0

    async def run(self, _: int) -> None:
        self._made += 1
        name = f"devassist-bench-{os.getpid()}-{id(self)}-{self._made}"
        await self._engine.create(name, self._body)
        try:
            attached = await self._engine.attach(name)
            await self._engine.start(name)
            said = b""
            while data := await attached.read():
                said += data
            attached.close()
            if b"1\n" not in said:
                raise Failed(f"the thin client read {said!r}")
        finally:
            await self._engine.remove(name)


async def many(count: int, at_once: int, work: Callable[[int], Awaitable[None]]) -> None:
    room = asyncio.Semaphore(at_once)

    async def one(number: int) -> None:
        async with room:
            await work(number)

    await asyncio.gather(*(one(number) for number in range(count)))


async def throughput(place: Path, passes: int, count: int) -> Times:
    """Programs a second of each contestant, until the containers of all of them are gone. Of ours only those count
    whose container was made meanwhile: the pool, which was full, gives the first ones away for nothing."""
    rates: Times = {OURS: [], THIN: [], SHORT: []}
    home = place / "throughput"
    engine = Engine(SOCKET)
    await engine.open()
    try:
        thin, short = Thin(engine, place / "thin", short=False), Thin(engine, place / "short", short=True)
        async with opened(home, 2) as sandbox:

            async def of(name: str) -> None:
                if name != OURS:
                    await many(count, AT_ONCE, (thin if name == THIN else short).run)
                    return
                await many(count, AT_ONCE, partial(run, sandbox))
                await cleared(home, sandbox)

            for number in range(passes):
                names = list(rates)
                for name in names[number % 3 :] + names[: number % 3]:
                    await at_rest(home, sandbox, 2)
                    given = sandbox.counts.warm
                    took = await timed(partial(of, name))
                    rates[name].append((count - sandbox.counts.warm + given) / (took / 1000))
                say(f"throughput: pass {number + 1} of {passes}")
    finally:
        await engine.close()
    return rates


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def crowd(place: Path) -> dict[str, float]:
    """500 programs with 32 in flight: what was lost, and what is left when all is closed."""
    home, before = place / "crowd", descriptors()
    lost = 0
    async with opened(home, 2) as sandbox:

        async def one(number: int) -> None:
            nonlocal lost
            code = f"print({number})"
            done = await sandbox.execute(Scope("default", f"bench-{number % 16}"), Program(code, 60.0))
            lost += done.stdout != f"{number}\n"

        took = await timed(lambda: many(CROWD, IN_FLIGHT, one))
        counts = sandbox.counts
    await asyncio.sleep(0.2)
    files = [path for path in home.iterdir() if path.name not in ("id", "lock")]
    return {
        "lost": lost, "containers": await containers(home), "directories": len(files),
        "descriptors": descriptors() - before, "leaks": counts.leaks, "per_s": CROWD / (took / 1000),
    }  # fmt: skip


def alive(marker: str) -> int:
    """Processes of this machine, containers' included, with the marker in their command line."""
    found = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        found += marker.encode() in words
    return found


async def timeouts(place: Path, peers: dict[str, Peer]) -> list[tuple[str, float, int, int]]:
    """Who, seconds until a time-out of 3 s was told, and of five children in sessions of their own how many live one
    second later, and how many once the sandbox was given up."""
    rows: list[tuple[str, float, int, int]] = []
    async with opened(place / "timeout", 1) as sandbox:
        marker = f"bench-{os.getpid()}-ours"
        program = Program(HIDING.format(marker=marker), 3.0)
        took = await timed(lambda: sandbox.execute(Scope("default", "bench"), program))
        await asyncio.sleep(1)
        rows.append(("devassist", took / 1000, alive(marker), alive(marker)))
    for name, peer in peers.items():
        marker = f"bench-{os.getpid()}-{name}"
        told = await asyncio.to_thread(peer.ask, "timeout", HIDING.format(marker=marker))
        await asyncio.sleep(1)
        there = alive(marker)
        await asyncio.to_thread(peer.ask, "end")
        rows.append((name, told["ms"] / 1000, there, alive(marker)))
        say(f"timeout: {name}")
    return rows


def shown(values: list[float]) -> list[str]:
    cuts = quantiles(values, n=20, method="inclusive") if len(values) > 1 else values * 19
    return [f"{cuts[9]:.1f}", f"{cuts[18]:.1f}", f"{min(values):.1f}", str(len(values))]


def report_latency(whole: Times, until: Times) -> list[str]:
    rows = [[name, *shown(values), f"{median(until[name]):.1f}"] for name, values in whole.items()]
    print(table(("contestant", "p50 ms", "p95", "least", "n", "p50 ms to the output"), rows), "\n")
    middle = {name: median(values) for name, values in whole.items()}
    lines = [Figure("sandbox_warm_p50_to_docker_run", middle[WARM] / middle[CLI], 0.1, "x", ".3f").line()]
    if SDK in middle:
        lines.append(Figure("sandbox_cold_p50_to_docker_py", middle[COLD] / middle[SDK], 0.6, "x").line())
        ratio = median(until[COLD]) / median(until[SDK])
        lines.append(f"INFO sandbox_cold_p50_to_docker_py_output value={ratio:.2f}x")
    for name in SLOW:
        if name in middle:
            values = f"value={median(until[name]) / middle[WARM]:.0f}x whole={middle[name] / middle[WARM]:.0f}x"
            lines.append(f"INFO sandbox_fresh_p50_of_{name.replace('-', '_')}_to_warm {values}")
    return lines


def report_throughput(rates: Times) -> list[str]:
    print(table(("client", "programs/s"), [[name, Spread.of(values).show()] for name, values in rates.items()]), "\n")
    ratio, short = (ratios(rates[name], rates[OURS]).middle for name in (THIN, SHORT))
    return [
        Figure("sandbox_throughput_thin_to_ours", ratio, 1.0, "x").line(),
        f"INFO sandbox_throughput_thin_no_network_to_ours value={short:.2f}x",
    ]


def report_crowd(found: dict[str, float]) -> list[str]:
    print(f"{CROWD} programs, {IN_FLIGHT} in flight: {found['per_s']:.2f}/s", "\n")
    names = ("lost", "containers", "directories", "descriptors", "leaks")
    return [Figure(f"sandbox_crowd_{name}", found[name], 0, "", ".0f").line() for name in names]


def report_timeouts(rows: list[tuple[str, float, int, int]]) -> list[str]:
    cells = [[name, f"{seconds:.1f}", str(there), str(after)] for name, seconds, there, after in rows]
    print(table(("after a time-out of 3 s", "told after s", "alive 1 s later", "alive once given up"), cells), "\n")
    ours, *others = rows
    lines = [Figure("sandbox_alive_after_timeout", ours[2], 0, "", ".0f").line()]
    return lines + [f"INFO sandbox_alive_after_timeout_{name.replace('-', '_')} value={n}" for name, _, n, _ in others]


async def measure(place: Path, peers: dict[str, Peer], given: argparse.Namespace) -> list[str]:
    lines: list[str] = []
    parts = given.only or PARTS
    if "latency" in parts:
        lines += report_latency(*await latency(place, peers, given.rounds, given.slow_rounds))
    if "throughput" in parts:
        lines += report_throughput(await throughput(place, given.passes, given.programs))
    if "crowd" in parts:
        lines += report_crowd(await crowd(place))
    if "timeout" in parts:
        lines += report_timeouts(await timeouts(place, peers))
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.sandbox", description=__doc__)
    parser.add_argument("--only", action="append", choices=PARTS, help="a part; may be given again")
    parser.add_argument("--rounds", type=int, default=30, help="of latency")
    parser.add_argument("--slow-rounds", type=int, default=3, help="of the peers that take ten seconds")
    parser.add_argument("--passes", type=int, default=5, help="of throughput")
    parser.add_argument("--programs", type=int, default=48, help="in a pass of throughput")
    parser.add_argument("--peers", action="append", choices=[*PACKAGES, "none"], help="default: all")
    parser.add_argument("--home", type=Path, default=HOME, help="where peers are installed")
    parser.add_argument("--dir", type=Path, help="where files of the measurement are made")
    given = parser.parse_args()
    wanted = [name for name in given.peers or PACKAGES if name != "none"]
    try:
        there, notes = installed(given.home, wanted) if wanted else ([], [])
        with workplace(given.dir) as place, ExitStack() as stack:
            notes += [*warnings(place), f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the start"]
            base = stack.enter_context(image(IMAGE)) if there else ""
            peers = {name: stack.enter_context(Peer(given.home, name, base)) for name in there}
            place.chmod(0o711)  # containers' users pass through
            lines = asyncio.run(measure(place, peers, given))
        print("\n".join([f"NOTE {note}" for note in notes] + lines))
    except (Failed, SandboxUnavailable) as error:
        print(f"bench.sandbox: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

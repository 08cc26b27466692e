"""Record the golden journals that tests/golden replays: real runs of the packaged agents, driven in memory.

``python scripts/record_golden.py`` writes the files that are not there yet and the list of their hashes. A recorded
file is never written again: it says how runs of its day went. Where today's core derives something else, that is a
change of behaviour and needs a flag in INIT; only before a first release may a file be deleted and recorded anew.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from devassist.audit.golden import GoldenText, dump, export, load, replay_golden
from devassist.core.chain import ZERO_HASH, link
from devassist.core.codec import b64, canonical
from devassist.core.definition import Definition
from devassist.core.errors import ProviderError
from devassist.core.event_codec import encode
from devassist.core.event_parts import Limits
from devassist.core.events import Held
from devassist.core.messages import ModelReply, NativeCall
from devassist.core.scope import Scope
from devassist.core.signals import RunRestored, SettlementGiven
from devassist.core.tooling import Effect, ToolResult, ToolSpec, ToolUnknown
from devassist.knowledge.policy_dir import follow_directory
from devassist.knowledge.search import TableLibrary
from devassist.llm.extractive import Extractive
from devassist.llm.scripted import AfterFailures, Scripted
from devassist.ports.journal import Body, Record
from devassist.ports.model import Model
from devassist.prompts.catalog import AgentFiles
from devassist.runtime.breakers import Breakers
from devassist.runtime.clock import SystemClock
from devassist.runtime.driver import Driver
from devassist.runtime.history import History
from devassist.runtime.intake import Intake, Submission
from devassist.runtime.local_bus import LocalBus
from devassist.runtime.people import People
from devassist.runtime.perform import Performer
from devassist.runtime.service import Service
from devassist.runtime.starting import Bounds
from devassist.store.knowledge_sqlite import SqliteKnowledge
from devassist.store.memory_journal import MemoryJournal
from devassist.store.vault import MemoryVault
from devassist.tools.get_policy import get_policy_tool
from devassist.tools.registry import Tool, ToolRegistry
from devassist.tools.schema import SchemaChecker
from devassist.tools.search_docs import search_docs_tool

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "tests" / "golden"
SAMPLES = ROOT / "src" / "devassist" / "knowledge" / "samples"
USER = Scope("default", "local", frozenset({"user", "admin"}))
CHECKER = SchemaChecker()
Run = Callable[["Scene"], Awaitable[bytes]]
_NUMBER: dict[str, Any] = {
    "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False,
}  # fmt: skip

DOUBLE = 'Thought: Compute it.\nAction: tool:double\nargs: {"n": 21}'
TRIPLE = 'Thought: Compute.\nAction: tool:triple\nargs: {"n": 14}'
LOOK_UP = 'Thought: Look it up.\nAction: tool:search_docs\nargs: {"query": "男职工 陪产假"}'
NATIVE = ModelReply("", tuple(NativeCall(f"call_{n}", "double", json.dumps({"n": n})) for n in (1, 2, 3)), "tool_calls")
BUSY = ProviderError("too many requests", code="provider_overloaded", retryable=True, provider_status=429)
DOWN = ProviderError("bad gateway", code="provider_error", retryable=True, provider_status=502)
TOO_LONG = ProviderError("too long", code="context_length_exceeded", provider_status=400)
SPARE = "scripted:spare"
REFUSED = ProviderError("invalid key", code="provider_unauthorised", retryable=False, provider_status=401)


async def double(n: int) -> ToolResult:
    return ToolResult({"n": 2 * n})


async def book(n: int) -> ToolUnknown:
    return ToolUnknown(f"the connection was lost while {n} was booked")


async def hang(n: int) -> ToolResult:
    await asyncio.sleep(3600)
    return ToolResult(n)


async def nap(n: int) -> ToolResult:
    await asyncio.sleep(0.5)
    return ToolResult(n)


def _no_price(model: str, input_tokens: int, output_tokens: int) -> None:
    return None


def _tool(name: str, handler: Callable[..., Any], effect: Effect) -> Tool:
    return Tool(ToolSpec(name, f"Test tool {name}: takes a number.", _NUMBER, effect=effect, timeout_s=10.0), handler)


@dataclass(frozen=True, slots=True)
class Scene:
    """A wired runtime of one model, in memory."""

    journal: MemoryJournal
    vault: MemoryVault
    service: Service
    intake: Intake
    people: People

    async def begin(self, message: str, agent: str, **definition: Any) -> bytes:
        collection = "policies" if agent == "rag" else None
        asked = Submission(message, "golden", agent=agent, collection_name=collection)
        start = await self.intake.prepare(USER, "agent", asked)
        changed: Definition = replace(start.definition, **definition)
        return (await self.service.start(USER, replace(start, definition=changed))).stream

    async def waits(self, stream: bytes, wanted: bool) -> None:
        """Until the run waits for a person, or does not any more."""
        for _ in range(500):
            if ((await self.journal.head(USER, stream)).state == "AWAIT_APPROVAL") is wanted:
                return
            await asyncio.sleep(0.02)
        raise SystemExit(f"{stream.hex()} does not move")

    async def ask(self, message: str, agent: str = "dev", **definition: Any) -> bytes:
        stream = await self.begin(message, agent, **definition)
        await self.service.wait(USER, stream)
        return stream


def _today() -> str:
    return "2026-06-01"


async def scene(model: Model, spare: Model | None = None) -> Scene:
    """``spare``: another model, ``SPARE`` to definitions."""
    vault = MemoryVault()
    journal = MemoryJournal(vault)
    clock, bus, history = SystemClock(), LocalBus(), History(journal, journal)
    knowledge = await SqliteKnowledge.open(Path(tempfile.mkdtemp(prefix="golden-")) / "knowledge.db")
    await follow_directory(knowledge, SAMPLES, clock, today=_today)
    library = TableLibrary(knowledge, clock, today=_today, dense=None)
    tools = ToolRegistry(
        [get_policy_tool(library), search_docs_tool(library), _tool("double", double, "pure"),
         _tool("book", book, "once"), _tool("hang", hang, "idempotent"), _tool("keep", double, "once"),
         _tool("nap", nap, "pure")]
    )  # fmt: skip
    performer = Performer(tools, CHECKER.check, bus, clock, _no_price)
    own = f"{model.kind}:{model.name}"
    breakers = Breakers(journal, clock, {own: "here"})
    driver = Driver(journal, vault, clock, performer, {own: model, SPARE: spare or model}, history, breakers)
    service = Service(journal, journal, vault, clock, bus, driver, history, Bounds())
    models = {"agent": model, "chat": model}
    intake = Intake(AgentFiles(), tools, library, journal, vault, models, Extractive(), Limits(), "text")
    people = People(journal, journal, vault, clock, CHECKER, service.wake)
    return Scene(journal, vault, service, intake, people)


# -- the runs ----------------------------------------------------------------------------------------------------------


async def cancelled(s: Scene) -> bytes:
    stream = await s.begin("Hang, please.", "dev")
    await asyncio.sleep(0.1)
    await s.service.cancel(USER, stream)
    await s.service.wait(USER, stream)
    return stream


async def settled(s: Scene) -> bytes:
    """A booking in doubt, which a person says happened."""
    stream = await s.ask("Book seat 7.")
    view = await s.service.view(USER, stream)
    digest = next(e.digest for e, _, _ in view.placed if isinstance(e, Held))
    domain = bytes.fromhex(view.state.started.domain)
    result, note = s.vault.seal(domain, '{"seat":7}'), s.vault.seal(domain, "The airline confirmed it by telephone.")
    said = SettlementGiven("settle:1", domain.hex(), digest, "happened", b64(result.ref), b64(note.ref))
    body, now = Body(said.kind, encode(said)), SystemClock().now_us()
    await s.journal.signal(USER, stream, said.signal_id, body, now, (result, note))
    while (await s.journal.head(USER, stream)).state == "AWAIT_APPROVAL":
        await s.service.sweep()
        await asyncio.sleep(0.02)
    await s.service.wait(USER, stream)
    return stream


async def second_turn(s: Scene) -> bytes:
    await s.ask("What is twice 21?")
    return await s.ask("And what did I ask before?")


async def breaker_open(s: Scene) -> bytes:
    """Three runs whose provider fails open the breaker; the fourth does not ask it."""
    for _ in range(3):
        await s.ask("What is twice 21?", fallbacks=(SPARE,))
    return await s.ask("What is twice 21?", fallbacks=(SPARE,))


async def approved(s: Scene, *, restored: bool = False) -> bytes:
    """A booking that a person approves, with another seat."""
    start = await s.intake.prepare(USER, "agent", Submission("Book seat 7.", "golden", agent="dev"))
    tools = tuple(replace(t, needs_approval=t.name == "keep" and not restored) for t in start.definition.tools)
    stream = await s.begin("Book seat 7.", "dev", tools=tools)
    if restored:
        await asyncio.sleep(0.1)
        event = RunRestored("restored:1", 1, 2)
        await s.journal.signal(USER, stream, event.signal_id, Body(event.kind, encode(event)), SystemClock().now_us())
    await s.waits(stream, True)
    view = await s.service.view(USER, stream)
    digest = [e.digest for e, _, _ in view.placed if isinstance(e, Held)][-1]
    await s.people.approve(USER, stream, digest, "approve", note="By the window.", args={"n": 8})
    await s.waits(stream, False)
    await s.service.wait(USER, stream)
    return stream


def _final(text: str) -> str:
    return f"Thought: I can answer.\nAction: final: {text}"


RUNS: dict[str, tuple[Callable[[], Model], Run, str]] = {
    "plain_final": (
        lambda: Scripted([_final("Forty-two.")]), lambda s: s.ask("What is twice 21?"), "an answer without a tool",
    ),
    "policy_extractive": (
        Extractive, lambda s: s.ask("男职工的陪产假有多少天？", "policy"),
        "the packaged policy agent, planner and library; a quotation with its source",
    ),
    "policy_no_clause": (
        Extractive, lambda s: s.ask("火星基地的停车费是多少？", "policy"), "a question that the library cannot answer",
    ),
    "policy_cited": (
        Extractive, lambda s: s.ask("退休人员门诊慢特病的报销比例是多少？", "policy"),
        "the retrieval is kept, and the quotation's verdict with its rule",
    ),
    "rag_cited": (
        Extractive, lambda s: s.ask("男职工的陪产假有多少天？", "rag"),
        "passages with numbers, and the list of their sources",
    ),
    "rag_removed": (
        lambda: Scripted([LOOK_UP, _final("陪产假为20天 [1]。另有奖金 900 元 [1]。还可以随意延长。")]),
        lambda s: s.ask("男职工的陪产假有多少天？", "rag", unsupported="remove"),
        "two sentences that nothing supports were left out",
    ),
    "correction": (
        lambda: Scripted(['Thought: Compute.\nAction: tool:double\nargs: {"n": 21', TRIPLE, _final("Forty-two.")]),
        lambda s: s.ask("What is twice 21?"), "two replies that cannot be acted on, each sent back with a correction",
    ),
    "two_tools": (
        lambda: Scripted([
            DOUBLE + '\nObservation: {"n": 7}\nAction: final: Seven.',
            'Thought: Look it up.\nAction: tool:get_policy\nargs: {"keywords": "生育津贴", "top_k": "2"}',
            _final("Forty-two, and the policy says so."),
        ]),
        lambda s: s.ask("Twice 21, and the policy on 生育津贴?"),
        "two steps; the first reply goes on after its action, the second needs a lossless coercion",
    ),
    "parallel_native": (
        lambda: Scripted([NATIVE, _final("Two, four and six.")]),
        lambda s: s.ask("Double 1, 2 and 3.", parallel=True), "three native calls made together",
    ),
    "retried": (
        lambda: Scripted([AfterFailures((BUSY,), _final("Forty-two."))]), lambda s: s.ask("What is twice 21?"),
        "a model call that failed, a recorded wait, and a second attempt",
    ),
    "failed": (
        lambda: Scripted([REFUSED]), lambda s: s.ask("What is twice 21?"), "the provider refused the key",
    ),
    "cancelled": (
        lambda: Scripted(['Thought: Wait.\nAction: tool:hang\nargs: {"n": 1}']), cancelled,
        "cancelled while a tool was running",
    ),
    "settled": (
        lambda: Scripted(['Thought: Book it.\nAction: tool:book\nargs: {"n": 7}', _final("Seat 7 is booked.")]),
        settled,
        "an effect in doubt that a person settled",
    ),
    "switched": (
        lambda: Scripted([REFUSED]), lambda s: s.ask("What is twice 21?", fallbacks=(SPARE,)),
        "the provider refused the key, and a fallback model answered",
    ),
    "breaker_open": (
        lambda: Scripted(lambda _: DOWN), breaker_open, "the breaker of the agent's own model was open",
    ),
    "shortened": (
        lambda: Scripted(lambda r: TOO_LONG if len(r.messages) > 3 else _final("Forty-two. " * 40)), second_turn,
        "a prompt that the model's context did not hold was made shorter",
    ),
    "approved": (
        lambda: Scripted(['Thought: Book it.\nAction: tool:keep\nargs: {"n": 7}', _final("Seat 8 is booked.")]),
        approved,
        "a call that a person approved with other arguments",
    ),
    "restored": (
        lambda: Scripted([
            'Thought: Wait.\nAction: tool:nap\nargs: {"n": 1}',
            'Thought: Book it.\nAction: tool:keep\nargs: {"n": 7}', _final("Seat 8 is booked."),
        ]),
        lambda s: approved(s, restored=True), "after a restore a person decides on a call that must happen once",
    ),
    "second_turn": (
        lambda: Scripted([_final("Forty-two.")]), second_turn, "a conversation's second run reads the first",
    ),
}  # fmt: skip


# -- files that must not replay --------------------------------------------------------------------------------------


def altered(text: str, kind: str, note: str, **fields: Any) -> str:
    """The golden with fields of its last event of ``kind`` changed, and every link made to fit again."""
    records, texts = load(text)
    seq = max(r.seq for r in records if r.kind == kind)
    made: list[Record] = []
    prev = ZERO_HASH
    for record in records:
        body = record.body
        if record.seq == seq:
            changed = {**json.loads(body), **fields}
            body = canonical({k: v for k, v in changed.items() if v is not None})
        prev = link(record.stream, record.seq, record.at, prev, body)
        made.append(record._replace(body=body, hash=prev))
    return dump(made, texts, note)


def retold(text: str, note: str, old: str, new: str) -> str:
    """The golden with a text replaced by another of the same length under its reference."""
    records, texts = load(text)
    return dump(records, {r: GoldenText(t.domain, t.text.replace(old, new)) for r, t in texts.items()}, note)


def must_fail(goldens: dict[str, str]) -> dict[str, str]:
    return {
        "must_fail_verdict": altered(
            goldens["policy_no_clause"], "run_finished", "says that a quote was verified", verdicts=["quote_verified"]
        ),
        "must_fail_prompt": altered(
            goldens["two_tools"], "model_intended", "says that the prompt was shorter", tokens=7
        ),
        "must_fail_order": altered(
            goldens["failed"], "run_failed", "says that it failed for another reason", code="step_limit", status=422
        ),
        "must_fail_checks": retold(
            goldens["rag_removed"], "says that nothing was left out", '"removed":2', '"removed":0'
        ),
        "must_fail_reply": retold(
            goldens["plain_final"], "the raw reply holds another answer", "final: Forty-two.", "final: Forty-one."
        ),
    }  # fmt: skip


# --------------------------------------------------------------------------------------------------------------------


async def record(model: Model, run: Run, note: str) -> str:
    made = await scene(model, Scripted(lambda _: _final("Forty-two."), name="spare"))
    await made.service.open(sole_driver=True)
    try:
        stream = await run(made)
        return await export(made.journal, made.journal, USER, stream, note)
    finally:
        await made.service.drain(0.0)


def _write(name: str, text: str, *, fails: bool) -> None:
    report = replay_golden(text, CHECKER)
    if report.ok is fails:
        raise SystemExit(f"{name}: expected {'a difference' if fails else 'none'}, got {report.differences}")
    (TARGET / f"{name}.jsonl").write_bytes(text.encode())
    print(f"recorded {name}: {report.decisions} decisions, {len(report.differences)} differences")


def sums(files: Sequence[Path]) -> str:
    """The text of SHA256SUMS, as ``sha256sum --check`` reads it."""
    return "".join(f"{sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(files))


def main() -> None:
    TARGET.mkdir(exist_ok=True)
    goldens: dict[str, str] = {}
    for name, (model, run, note) in RUNS.items():
        path = TARGET / f"{name}.jsonl"
        if path.exists():
            goldens[name] = path.read_bytes().decode()
        else:
            goldens[name] = asyncio.run(record(model(), run, note))
            _write(name, goldens[name], fails=False)
    for name, text in must_fail(goldens).items():
        if not (TARGET / f"{name}.jsonl").exists():
            _write(name, text, fails=True)
    (TARGET / "SHA256SUMS").write_text(sums(list(TARGET.glob("*.jsonl"))), encoding="utf-8")


if __name__ == "__main__":
    main()

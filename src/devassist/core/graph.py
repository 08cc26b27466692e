"""Events to nodes and edges, and to a Mermaid flowchart: the decisions, effects, waits and signals of a run in order.

Works for runs in any state. It shows what steps show (thoughts, arguments, corrections, the released answer), never a
raw reply.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from devassist.core.decide import INTERRUPTED
from devassist.core.events import (
    CallClosed,
    Event,
    Held,
    ModelFailed,
    ModelIntended,
    ModelReplied,
    ModelSwitched,
    RunAborted,
    RunFailed,
    RunFinished,
    RunStarted,
    ToolIntended,
    ToolReturned,
    WaitBegun,
)
from devassist.core.mermaid import LABEL, Edge, Graph, Mark, Node, Shape, bounded, flowchart
from devassist.core.signals import (
    ApprovalGiven,
    CancelRequested,
    ChildFinished,
    LateOutcome,
    RunRestored,
    SettlementGiven,
    TimerFired,
)
from devassist.core.wire import Text

ERASED = "(erased)"
_OUTCOMES: dict[str, Mark] = {"failed": "failed", "retry": "fault", "unknown": "doubt"}
_WAITS = {
    "backoff": "Wait before another try",
    "breaker": "Wait for the provider, which failed too often",
    "child": "Wait for a child run",
}


def mermaid(events: Iterable[Event], text: Text, *, full: bool = False) -> str:
    """The run as Mermaid text: whole, or within 400 edges and 50,000 characters by leaving its middle out."""
    graph = build(events, text)
    return flowchart(graph) if full else bounded(graph)


def build(events: Iterable[Event], text: Text) -> Graph:
    """The graph of a run's events, from INIT on."""
    builder = _Builder(text)
    for seq, event in enumerate(events):
        builder.feed(event, seq)
    return Graph(builder.nodes, builder.edges)


class _Tail(NamedTuple):
    """Where the story stands: what comes next gets an edge from ``node``, labelled ``label``."""

    node: int
    label: str = ""


class _Builder:
    def __init__(self, text: Text) -> None:
        self.nodes: list[Node] = []
        self.edges: list[Edge] = []
        self._text = text
        self._step = -1
        self._tails: list[_Tail] = []
        self._calls: dict[int, _Tail] = {}
        self._intents: dict[int, tuple[int, int]] = {}  # seq of a tool intent -> (call, node)
        self._latest: dict[int, int] = {}  # call -> seq of its newest intent
        self._holds: dict[str, int] = {}  # digest -> call
        self._effects: dict[int, str] = {}
        self._unsettled: set[int] = set()  # seqs of tool intents without a final outcome
        self._attempt = 0
        self._waiting = False
        self._cancel = -1

    def feed(self, event: Event, seq: int) -> None:
        match event:
            case RunStarted() | RunFinished() | RunFailed() | RunAborted() | WaitBegun() | ModelSwitched():
                self._frame(event)
            case ModelIntended() | ModelReplied() | ModelFailed():
                self._model(event)
            case ToolIntended() | ToolReturned() | CallClosed() | Held():
                self._tool(event, seq)
            case LateOutcome() | ApprovalGiven() | SettlementGiven() | CancelRequested() | TimerFired():
                self._signal(event)
            case ChildFinished():
                self._news(self._node(f"Child run ended: {event.state}", "flag"))
            case RunRestored():
                self._beside(self._node("The journal was put back to an earlier state", "flag"))
            case _:
                pass

    # -- drawing -------------------------------------------------------------------------------------------------

    def _node(self, label: str, shape: Shape, mark: Mark = "") -> int:
        self.nodes.append(Node(label, shape, mark, self._step))
        return len(self.nodes) - 1

    def _mark(self, node: int, mark: Mark) -> None:
        self.nodes[node] = self.nodes[node]._replace(mark=mark)

    def _join(self, node: int, label: str = "") -> None:
        """All loose ends lead to ``node``, and the story goes on from there."""
        for tail in [*self._calls.values(), *self._tails]:
            self.edges.append(Edge(tail.node, node, tail.label or label))
        self._calls.clear()
        self._tails = [_Tail(node)]
        self._waiting = False

    def _follow(self, call: int, node: int, label: str = "") -> None:
        """The story of one call goes on at ``node``."""
        tail = self._calls.get(call) or (self._tails[0] if self._tails else None)
        if tail is not None:
            self.edges.append(Edge(tail.node, node, " · ".join(part for part in (tail.label, label) if part)))
        self._calls[call] = _Tail(node)

    def _news(self, node: int) -> None:
        """What a wait waits for; stands beside when nothing waits."""
        if self._waiting:
            self._join(node)
            self._waiting = True
        else:
            self._beside(node)

    def _beside(self, node: int, source: int | None = None) -> None:
        """A signal that moves nothing yet."""
        if source is None:
            ends = [tail.node for tail in (*self._calls.values(), *self._tails)]
            source = max(ends, default=0)
        self.edges.append(Edge(source, node, dashed=True))

    def _read(self, ref: str | None, room: int = 4 * LABEL) -> str:
        if ref is None:
            return ""
        text = self._text(ref)
        return ERASED if text is None else text[:room]

    # -- events --------------------------------------------------------------------------------------------------

    def _frame(self, event: RunStarted | RunFinished | RunFailed | RunAborted | WaitBegun | ModelSwitched) -> None:
        match event:
            case RunStarted():
                self._join(self._node(_titled("Message", self._read(event.message)), "stadium"))
            case WaitBegun():
                self._join(self._node(_WAITS[event.reason], "slanted"))
                self._waiting = True
            case ModelSwitched():
                self._join(self._node(f"Switch to {event.model}: {event.reason}", "round"))
            case RunFinished():
                self._join(self._node(_titled("Answer", self._read(event.answer)), "stadium"))
            case RunFailed():
                failed = _titled(f"Failed, {event.code}", self._read(event.message))
                self._join(self._node(failed, "stadium", "failed"))
            case RunAborted():
                end = self._node(f"Ended: {event.reason}", "stadium")
                self._join(end)
                if self._cancel >= 0:
                    self.edges.append(Edge(self._cancel, end, dashed=True))

    def _model(self, event: ModelIntended | ModelReplied | ModelFailed) -> None:
        match event:
            case ModelIntended():
                self._step = event.step
                self._attempt = self._node(f"Model attempt {event.attempt}: {event.model}", "box", "open")
                self._join(self._attempt, f"step {event.step}")
                self._latest.clear()
                self._effects.clear()
            case ModelFailed():
                self._mark(self._attempt, "failed")
                label = "cut off" if event.code == INTERRUPTED else f"{event.code} {event.status}"
                self._tails = [_Tail(self._attempt, label)]
            case ModelReplied():
                self._mark(self._attempt, "")
                self._tails = [_Tail(self._attempt, _took(event.took))]
                self._decision(event)

    def _decision(self, event: ModelReplied) -> None:
        if event.decision == "fault":
            fault = _titled(f"Fault, {event.code}", self._read(event.correction))
            self._join(self._node(fault, "round", "fault"))
            self._tails = [self._tails[0]._replace(label="correction")]
            return
        names = ", ".join(call.tool for call in event.calls)
        title = f"Call {names}" if event.calls else "Answer"
        node = self._node(_titled(title, self._read(event.thought)), "round")
        self._join(node)
        if event.calls:
            several = len(event.calls) > 1
            self._calls = {index: _Tail(node, f"call {index}" if several else "") for index in range(len(event.calls))}
            self._effects = {index: call.effect for index, call in enumerate(event.calls)}
            self._tails = []

    def _tool(self, event: ToolIntended | ToolReturned | CallClosed | Held, seq: int) -> None:
        match event:
            case ToolIntended():
                node = self._node(f"{event.tool}({self._read(event.args)})", "double", "open")
                self._follow(event.call, node, f"attempt {event.attempt}" if event.attempt > 1 else "")
                self._intents[seq], self._latest[event.call] = (event.call, node), seq
                self._unsettled.add(seq)
            case ToolReturned():
                call, node = self._intents.get(event.of, (-1, 0))
                self._mark(node, self._outcome_mark(call, event))
                self._calls[call] = _Tail(node, f"{_outcome(event)} · {_took(event.took)}")
                if event.outcome != "unknown":
                    self._unsettled.discard(event.of)
            case CallClosed():
                node = self._node(f"Call {event.call} {event.closing.replace('_', ' ')}", "round", _closing_mark(event))
                self._follow(event.call, node)
                self._unsettled.discard(self._latest.get(event.call, -1))
            case Held():
                what = "Wait for approval" if event.reason == "approval" else "Wait for a person to settle the outcome"
                self._follow(event.call, self._node(f"{what} of call {event.call}", "hexagon"))
                self._holds[event.digest] = event.call

    def _outcome_mark(self, call: int, event: ToolReturned | LateOutcome) -> Mark:
        if event.outcome == "unknown" and self._effects.get(call) != "once":
            return "failed"
        return _OUTCOMES.get(event.outcome, "")

    def _signal(self, event: LateOutcome | ApprovalGiven | SettlementGiven | CancelRequested | TimerFired) -> None:
        match event:
            case LateOutcome():
                self._late(event)
            case CancelRequested():
                node = self._node("Cancel requested", "flag")
                self._beside(node)
                self._cancel = node if self._cancel < 0 else self._cancel
            case TimerFired():
                self._news(self._node("Time has come", "flag"))
            case ApprovalGiven() | SettlementGiven():
                said = event.decision if isinstance(event, ApprovalGiven) else event.outcome
                node = self._node(f"A person answered: {said}", "flag")
                call = self._holds.pop(event.digest, None)
                if call is None:
                    self._beside(node)
                else:
                    self._follow(call, node)

    def _late(self, event: LateOutcome) -> None:
        """A late outcome goes on with its call where that has none, else it stands beside."""
        node = self._node(f"Late outcome: {_outcome(event)}", "flag", self._outcome_mark(-1, event))
        call, attempt = self._intents.get(event.of, (-1, -1))
        if event.of in self._unsettled and self._latest.get(call) == event.of:
            if self.nodes[attempt].mark == "open":
                self._mark(attempt, "")
            self._follow(call, node)
            self._unsettled.discard(event.of)
        else:
            self._beside(node, attempt if attempt >= 0 else None)


def _titled(title: str, text: str) -> str:
    return f"{title}: {text}" if text else title


def _closing_mark(event: CallClosed) -> Mark:
    if event.closing in ("happened", "cancelled"):
        return ""
    return "doubt" if event.closing == "abandoned" or event.code == "outcome_unknown" else "failed"


def _outcome(event: ToolReturned | LateOutcome) -> str:
    word = {"needs_approval": "needs approval", "unknown": "outcome unknown"}.get(event.outcome, event.outcome)
    same = event.code is None or event.code.replace("_", " ") == word
    return word if same else f"{word} {event.code}"


def _took(micro: int) -> str:
    return f"{micro // 1000} ms" if micro < 10_000_000 else f"{micro // 1_000_000} s"

"""``Recorded`` plays recorded replies back; ``Recording`` writes down what another model answered.

A record names the prompt that it answers by a digest, so a replay that goes another way is found at once. The file
holds one JSON object a line and neither prompts, keys nor addresses: attempt, digest, model, and the reply or error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from devassist.core.errors import ConfigInvalid, ProviderError, ServiceFault
from devassist.core.messages import ModelReply, NativeCall
from devassist.core.scope import Scope
from devassist.ports.model import Model, ModelKind, ModelRequest

_DOMAIN = b"devassist/prompt/1"
_ERROR_FIELDS = ("code", "retryable", "retry_after_ms", "provider_status", "input_tokens", "output_tokens")


class RecordMismatch(ServiceFault):
    """The prompt is not the one that was answered when the record was made; holds and names both digests."""

    code = "replay_mismatch"
    title = "The prompt differs from the recorded one"

    def __init__(self, attempt: int, *, recorded: str, given: str) -> None:
        super().__init__(f"Attempt {attempt}: the record answers prompt {recorded}, and prompt {given} was given")
        self.attempt = attempt
        self.recorded = recorded
        self.given = given


class RecordMissing(ServiceFault):
    """No record of this attempt."""

    code = "replay_missing"
    title = "There is no record of this model attempt"


@dataclass(frozen=True, slots=True)
class Record:
    """What came of one model attempt. An empty ``digest`` answers any prompt."""

    attempt: int
    outcome: ModelReply | ProviderError
    digest: str = ""
    trace_id: str = ""
    model: str = ""


def prompt_digest(request: ModelRequest) -> str:
    """SHA-256 (hex) over what the model is told: messages, native tools and the bound of its reply."""
    told = {
        "messages": [m._asdict() | {"tool_calls": [asdict(c) for c in m.tool_calls]} for m in request.messages],
        "tools": list(request.tools),
        "max_tokens": request.max_tokens,
    }
    return sha256(_DOMAIN + json.dumps(told, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class Recorded:
    """Gives the record of ``request.attempt``. Raises ConfigInvalid when two share one: records are of one run."""

    def __init__(self, records: Iterable[Record], *, name: str = "recorded") -> None:
        self._records: dict[int, Record] = {}
        self._name = name
        for record in records:
            if record.attempt in self._records:
                raise ConfigInvalid(f"two records of attempt {record.attempt}; choose one run by its trace_id")
            self._records[record.attempt] = record

    @property
    def name(self) -> str:
        return self._name

    @property
    def kind(self) -> ModelKind:
        return "recorded"

    async def complete(
        self, scope: Scope, request: ModelRequest, on_delta: Callable[[str], None] | None = None
    ) -> ModelReply:
        """The recorded reply, as one delta. Raises the recorded ProviderError, RecordMismatch or RecordMissing."""
        record = self._records.get(request.attempt)
        if record is None:
            raise RecordMissing(f"Attempt {request.attempt} was not recorded; there are {sorted(self._records)}")
        given = prompt_digest(request)
        if record.digest and record.digest != given:
            raise RecordMismatch(request.attempt, recorded=record.digest, given=given)
        if isinstance(record.outcome, ProviderError):
            error = record.outcome
            raise ProviderError(error.detail, **{name: getattr(error, name) for name in _ERROR_FIELDS})
        if on_delta is not None and record.outcome.text:
            on_delta(record.outcome.text)
        return record.outcome

    async def close(self) -> None:
        """Nothing to release."""


class Recording:
    """Passes every call on to ``inner`` and appends what came of it to ``path`` (made with mode 0600).

    A cancelled call leaves no record. Lines are written whole, in the order in which calls end, and not synced.
    """

    def __init__(self, inner: Model, path: Path) -> None:
        self._inner = inner
        self._path = path

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def kind(self) -> ModelKind:
        return self._inner.kind

    async def complete(
        self, scope: Scope, request: ModelRequest, on_delta: Callable[[str], None] | None = None
    ) -> ModelReply:
        """As ``inner`` does. Raises what ``inner`` raises, and OSError when the file cannot be written."""
        try:
            outcome = await self._inner.complete(scope, request, on_delta)
        except ProviderError as error:
            self._write(request, error)
            raise
        self._write(request, outcome)
        return outcome

    async def close(self) -> None:
        await self._inner.close()

    def _write(self, request: ModelRequest, outcome: ModelReply | ProviderError) -> None:
        record = Record(request.attempt, outcome, prompt_digest(request), request.trace_id, self._inner.name)
        self._path.touch(mode=0o600)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(to_line(record))


def to_line(record: Record) -> str:
    """The record as one line of JSON."""
    outcome = record.outcome
    data: dict[str, Any] = {
        "v": 1, "trace_id": record.trace_id, "attempt": record.attempt, "digest": record.digest, "model": record.model,
    }  # fmt: skip
    if isinstance(outcome, ProviderError):
        data["error"] = {"detail": outcome.detail, **{name: getattr(outcome, name) for name in _ERROR_FIELDS}}
    else:
        data["reply"] = asdict(outcome)
    return json.dumps(data) + "\n"


def load_records(path: Path, trace_id: str | None = None) -> Sequence[Record]:
    """The records of a file, of one run when ``trace_id`` is given.

    Raises ConfigInvalid naming the file, or the line that is wrong.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise ConfigInvalid(f"{path}: not readable: {error}") from None
    records = [_from_line(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line.strip()]
    return [record for record in records if trace_id is None or record.trace_id == trace_id]


def _from_line(line: str, where: str) -> Record:
    try:
        data = cast("dict[str, Any]", json.loads(line))
        if data["v"] != 1:
            raise ConfigInvalid(f"{where}: records of version {data['v']} are not known")
        outcome = _reply(data["reply"]) if "reply" in data else ProviderError(**data["error"])
        return Record(int(data["attempt"]), outcome, str(data["digest"]), str(data["trace_id"]), str(data["model"]))
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigInvalid(f"{where}: not a record: {error!r}") from None


def _reply(data: dict[str, Any]) -> ModelReply:
    fields: dict[str, Any] = {**data, "calls": tuple(NativeCall(**call) for call in data["calls"])}
    return ModelReply(**fields)

"""The error tree: every failure of the product, and for each whose fault it is.

::

    DevAssistError              never raised itself
    ├── CallerError             the request was wrong: say what, and what would be right
    │   ├── InvalidRequest      422   the body does not fit the schema
    │   ├── ToolNotAllowed      400   the agent does not have the tool
    │   ├── ToolArgumentsInvalid 400  arguments do not fit the tool's schema
    │   ├── NotFound            404   (also ToolNotFound, RunNotFound, …)
    │   ├── Conflict            409   (also ToolExists, ConversationBusy, DataDirInUse)
    │   ├── TooLarge            413
    │   ├── IdempotencyMismatch 422, FileQuarantined 422
    │   ├── Unauthorised 401, Forbidden 403, Overloaded 429
    ├── ModelFault              the model's reply cannot be acted on; goes back as a correction
    ├── ProviderError           a downstream failed; may be retryable
    └── ServiceFault            ours: never shown to a model as a tool's output
        ├── JournalCorrupt      the record contradicts itself; names the row
        ├── IllegalTransition   an event that the state does not allow
        ├── Superseded          a newer epoch owns the run
        ├── PayloadErased       the key of the text's domain was destroyed
        ├── Draining 503, Unavailable 503, HeldStart 503
        └── ConfigInvalid       a setting is wrong; names it and the nearest right one

``code`` is stable and machine-readable, ``status`` the HTTP status (RFC 9110), ``detail`` a sentence for people that
names what was wrong and what would be right. No detail ever holds a secret.
"""

from __future__ import annotations

from typing import ClassVar, Literal

Fault = Literal["caller", "model", "provider", "service"]


class DevAssistError(Exception):
    """Base of the tree. Subclasses fix ``code``, ``title``, ``status``, ``retryable`` and ``fault``."""

    code: str = "internal"
    title: ClassVar[str] = "Internal error"
    status: int = 500
    retryable: bool = False
    fault: ClassVar[Fault] = "service"

    def __init__(self, detail: str, *, code: str | None = None, errors: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = errors
        if code is not None:
            self.code = code


class CallerError(DevAssistError):
    code = "bad_request"
    title = "Bad request"
    status = 400
    fault = "caller"


class InvalidRequest(CallerError):
    code = "invalid_request"
    title = "The request does not fit the schema"
    status = 422


class IdempotencyMismatch(CallerError):
    code = "idempotency_mismatch"
    title = "The Idempotency-Key was used for another request"
    status = 422


class FileQuarantined(CallerError):
    """A file became no document; ``detail`` begins with the code of the reason, and the file is listed with it."""

    code = "file_quarantined"
    title = "The file cannot be taken in"
    status = 422


class ToolNotAllowed(CallerError):
    code = "tool_not_allowed"
    title = "The agent does not have this tool"


class ToolArgumentsInvalid(CallerError):
    """Arguments do not fit the tool's JSON Schema; ``errors`` holds (path, message) pairs."""

    code = "tool_arguments_invalid"
    title = "The tool's arguments do not fit its schema"


class ToolSchemaInvalid(CallerError):
    code = "tool_schema_invalid"
    title = "The tool's declaration is not valid"


class Unauthorised(CallerError):
    code = "unauthorised"
    title = "Authentication is required"
    status = 401


class Forbidden(CallerError):
    code = "forbidden"
    title = "Not allowed"
    status = 403


class ToolForbidden(Forbidden):
    """The tool needs a right that the caller does not have."""

    code = "tool_forbidden"
    title = "The tool needs another right"


class NotFound(CallerError):
    code = "not_found"
    title = "Not found"
    status = 404


class ToolNotFound(NotFound):
    code = "tool_not_found"
    title = "No such tool"


class RunNotFound(NotFound):
    code = "run_not_found"
    title = "No such run"


class AgentNotFound(NotFound):
    code = "agent_not_found"
    title = "No such agent"


class CollectionNotFound(NotFound):
    code = "collection_not_found"
    title = "No such collection"


class DocumentNotFound(NotFound):
    code = "document_not_found"
    title = "No such document"


class RevisionNotFound(NotFound):
    code = "revision_not_found"
    title = "No such revision"


class ConversationNotFound(NotFound):
    code = "conversation_not_found"
    title = "No such conversation"


class ApprovalNotFound(NotFound):
    code = "approval_not_found"
    title = "The run asks for no such approval"


class DoubtNotFound(NotFound):
    code = "doubt_not_found"
    title = "No such call of the run was in doubt"


class Conflict(CallerError):
    code = "conflict"
    title = "Conflict"
    status = 409


class AlreadyDecided(Conflict):
    """Somebody answered before, and otherwise; ``detail`` says what."""

    code = "already_decided"
    title = "It was decided otherwise"


class NotWaiting(Conflict):
    """The run asked, and waits for that answer no more."""

    code = "not_waiting"
    title = "The run does not wait for this"


class ToolExists(Conflict):
    code = "tool_exists"
    title = "A tool of this name is registered"


class ConversationBusy(Conflict):
    code = "conversation_busy"
    title = "The conversation has an open run"


class DataDirInUse(Conflict):
    code = "data_dir_in_use"
    title = "Another process drives runs on this data directory"


class KnowledgeConflict(Conflict):
    """A document changed since the plan was made, or two of its revisions would hold on one day; nothing was done."""

    code = "knowledge_conflict"
    title = "The document changed meanwhile, or its revisions would overlap"


class TooLarge(CallerError):
    code = "body_too_large"
    title = "The body is too large"
    status = 413


class Overloaded(CallerError):
    """Admission refused; ``retry_after_s`` says when to come back."""

    code = "overloaded"
    title = "Too many open runs"
    status = 429
    retryable = True

    def __init__(self, detail: str, *, retry_after_s: int = 1) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class ModelFault(DevAssistError):
    code = "model_fault"
    title = "The model's reply cannot be acted on"
    status = 502
    fault = "model"


class ProviderError(DevAssistError):
    """A model or other downstream failed.

    ``retryable``: whether the same request may succeed later. ``retry_after_ms``: what the provider asked for.
    ``provider_status``: its HTTP status (also one hidden in a body sent with 200).
    """

    code = "provider_error"
    title = "The provider failed"
    status = 502
    fault = "provider"

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        retryable: bool = False,
        retry_after_ms: int | None = None,
        provider_status: int | None = None,
        input_tokens: int = 0,
        output_tokens: int = 0,
    ) -> None:
        super().__init__(detail, code=code)
        self.retryable = retryable
        self.retry_after_ms = retry_after_ms
        self.provider_status = provider_status
        self.input_tokens = input_tokens
        self.output_tokens = output_tokens


class ServiceFault(DevAssistError):
    code = "service_fault"
    title = "The service failed"


class JournalCorrupt(ServiceFault):
    """The record contradicts itself; ``detail`` names the row."""

    code = "journal_corrupt"
    title = "The journal contradicts itself"


class UnknownEventKind(JournalCorrupt):
    code = "unknown_event_kind"
    title = "The journal holds an event of an unknown kind or version"


class IllegalTransition(ServiceFault):
    code = "illegal_transition"
    title = "The state does not allow this event"


class SeqMoved(ServiceFault):
    """An append expected another head; ``head_seq`` is where the stream stands now."""

    code = "seq_moved"
    title = "The stream has moved"
    retryable = True

    def __init__(self, detail: str, *, head_seq: int) -> None:
        super().__init__(detail)
        self.head_seq = head_seq


class Superseded(ServiceFault):
    code = "superseded"
    title = "A newer owner drives this run"


class StreamExists(ServiceFault):
    code = "stream_exists"
    title = "The stream exists already"


class PayloadErased(ServiceFault):
    code = "payload_erased"
    title = "The text was erased"
    status = 410


class PayloadMissing(JournalCorrupt):
    code = "payload_missing"
    title = "A payload that the journal names is not there"


class Draining(ServiceFault):
    code = "draining"
    title = "The service is shutting down"
    status = 503
    retryable = True


class Unavailable(ServiceFault):
    code = "unavailable"
    title = "Not available"
    status = 503
    retryable = True


class EmbedderUnavailable(Unavailable):
    code = "embedder_unavailable"
    title = "No vectors can be made of texts"


class VectorsUnavailable(Unavailable):
    code = "vectors_unavailable"
    title = "The vector index cannot be searched"


class HeldStart(ServiceFault):
    """The journal was put back to an earlier state, and no person has gone on from there yet."""

    code = "held"
    title = "Held after a rewind of the journal"
    status = 503


class SandboxUnavailable(ServiceFault):
    """No program can be run now: a fault of the service, never shown to a model as a program's output."""

    code = "sandbox_unavailable"
    title = "No sandbox is available"
    status = 503
    retryable = True


class SandboxStarting(SandboxUnavailable):
    """It is being built or opened: a matter of a minute."""

    code = "sandbox_starting"
    title = "The sandbox is being made ready"


class ConfigInvalid(ServiceFault):
    code = "config_invalid"
    title = "A setting is wrong"

"""The bodies of what people say to a run."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from devassist.api.schemas import Strict
from devassist.runtime.people import Given

Note = Annotated[str, Field(max_length=4_000)]


class ApprovalRequest(Strict):
    """Body of ``POST /runs/{trace_id}/approvals/{digest}``. ``tool_args`` take the place of the call's arguments."""

    decision: Literal["approve", "reject"]
    note: Note | None = None
    tool_args: dict[str, Any] | None = None


class SettleRequest(Strict):
    """Body of ``POST /runs/{trace_id}/steps/{step_index}/settle``. ``result`` is what the call returned, any JSON, and
    goes with ``happened`` only. ``call_index``, from 0, says which call where several of the step are in doubt; with
    ``digest`` (that of ``pending``) the answer counts for that question and no later one."""

    outcome: Literal["happened", "repeat", "abandon"]
    result: Any = None
    note: Note | None = None
    call_index: Annotated[int, Field(ge=0)] | None = None
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None

    def given(self) -> Given | None:
        """The result, if the body has one: null is one."""
        return Given(self.result) if "result" in self.model_fields_set else None

"""What a person's word binds to: digests of calls that wait for one, and of doubts that were told to the model."""

from __future__ import annotations

from hashlib import sha256

from devassist.core.codec import canonical
from devassist.core.event_parts import Ref
from devassist.core.events import RunStarted
from devassist.core.run_state import RunState


def hold_digest(state: RunState, index: int, args: Ref | None = None) -> str:
    """Binds an approval or settlement to the call, its arguments and the definition it was asked under; with ``args``
    to the call as it goes on once these are put in place of its own."""
    call = state.calls[index].call
    parts = {
        "definition": state.started.definition, "decision": state.reply_seq, "call": index, "tool": call.tool,
        "args": args or call.args, "attempt": state.calls[index].attempts,
    }  # fmt: skip
    return sha256(canonical(parts)).hexdigest()


def doubt_digest(started: RunStarted, intent: int) -> str:
    """Binds a settlement to the attempt at ``intent`` of a call that ended in doubt while the run went on."""
    return sha256(canonical({"definition": started.definition, "intent": intent})).hexdigest()

"""Exceptions by which a handler says what came of its call, for where a return value would be in the way.

Each carries one of the outcomes of ``core.tooling``. They are no errors of the product: what a handler raises besides
these is a fault of the service and is never shown to a model.
"""

from __future__ import annotations

from devassist.core.tooling import ToolFailure, ToolNeedsApproval, ToolOutcome, ToolRetry, ToolUnknown


class ToolSignal(Exception):
    """Base: ``outcome`` is what the call comes to."""

    def __init__(self, outcome: ToolOutcome, text: str) -> None:
        super().__init__(text)
        self.outcome = outcome


class RetryWithMessage(ToolSignal):
    """The model may correct its call; ``message`` tells it how."""

    def __init__(self, message: str) -> None:
        super().__init__(ToolRetry(message), message)


class FailForGood(ToolSignal):
    """No correction helps; the model is told ``message``. ``status`` stands in the step's error."""

    def __init__(self, code: str, message: str, *, status: int = 400) -> None:
        super().__init__(ToolFailure(code, message, status), message)


class AskForApproval(ToolSignal):
    """Nothing was done; a person has to approve first."""

    def __init__(self, reason: str) -> None:
        super().__init__(ToolNeedsApproval(reason), reason)


class OutcomeUnknown(ToolSignal):
    """The effect may have happened (a connection was lost after sending, say); nobody knows its result."""

    def __init__(self, reason: str) -> None:
        super().__init__(ToolUnknown(reason), reason)

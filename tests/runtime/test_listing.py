"""How runs read in lists: a status, and the states that a list of it looks through."""

from __future__ import annotations

import pytest

from devassist.core.states import State
from devassist.ports.journal import Head
from devassist.runtime.listing import STATES_OF, status_of


@pytest.mark.parametrize("driving", [True, False])
@pytest.mark.parametrize("state", list(State))
def test_a_list_by_status_holds_every_run_that_reads_so(state: State, driving: bool) -> None:
    """A run that has its turn but no step yet is looked for among the running ones as well."""
    head = Head(bytes(16), "default", "run", None, 0, bytes(32), state=str(state), driving=driving)
    assert str(state) in STATES_OF[status_of(head)]


def test_a_run_runs_from_its_turn_on() -> None:
    """Before it, it waits."""
    heads = [Head(bytes(16), "default", "run", None, 0, bytes(32), state="INIT", driving=d) for d in (False, True)]
    assert [status_of(head) for head in heads] == ["waiting", "running"]

"""``trace approve`` and ``trace settle``: beside a running server, and on files that nobody drives."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from devassist.bootstrap import open_services
from devassist.core.tooling import ToolSpec
from devassist.tools.registry import Tool
from tests.api.fakes import call, final, schema
from tests.api.kit import Live, serving
from tests.cli.kit import invoke, lines, script

RULES: list[dict[str, Any]] = [
    {"match": "^pay", "replies": [call("pay", amount=70), final("paid")]},
    {"match": "^mail", "replies": [call("mail", to="a"), final("sent")]},
    {"match": "^both", "replies": [{"calls": [
        {"id": "a", "name": "mail", "arguments": {"to": "a"}}, {"id": "b", "name": "pay", "arguments": {"amount": 1}},
        {"id": "c", "name": "mail", "arguments": {"to": "c"}},
    ]}, final("both")]},
    {"replies": [final("hello")]},
]  # fmt: skip
TELLER = "name: teller\ndescription: {zh: 述, en: says}\nprompt: {zh: 示, en: told}\ntools: '*'\non_unknown: tell\n"


def tools() -> list[Tool]:
    async def pay(amount: int) -> dict[str, int]:
        return {"paid": amount}

    async def mail(to: str) -> None:
        await asyncio.sleep(60)

    pays = ToolSpec("pay", "Pays.", schema("amount", amount={"type": "integer"}), None, "once", needs_approval=True)
    mails = ToolSpec("mail", "Sends.", schema("to", to={"type": "string"}), None, "once", timeout_s=0.05)
    return [Tool(pays, pay), Tool(mails, mail)]


here = partial(invoke, opener=partial(open_services, extra_tools=tools()))


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    place = tmp_path_factory.mktemp("people")
    agents = place / "agents"
    agents.mkdir()
    (agents / "teller.yaml").write_text(TELLER, "utf-8")
    with serving(place, RULES, tools(), agents_dir=str(agents)) as made:
        yield made


def beside(live: Live, *args: str) -> Result:
    """The command on the files of the running server."""
    return invoke(*args, "--data-dir", str(live.data))


def ask(live: Live, text: str, *args: str) -> tuple[str, str]:
    """The trace id of a run that the server began for ``ask``, and what was told on stderr."""
    result = invoke("ask", text, "--agent", "dev", *args, "--url", live.url)
    found = re.search(r"^trace ([0-9a-f]{32})", result.stderr, re.MULTILINE)
    assert found is not None, result.output
    return found[1], result.stderr


@pytest.fixture(scope="module")
def waiting(live: Live) -> str:
    """A run that waits for approval."""
    return ask(live, "pay")[0]


def test_what_waits_is_shown_with_the_command_that_answers(live: Live) -> None:
    """``ask`` ends with 1 and says it, ``trace show`` too; the command does what it says."""
    trace_id, told = ask(live, "pay")
    assert 'waiting for a person (approval): pay {"amount": 70}\n' in told
    command = next(line.strip() for line in told.splitlines() if "devassist trace" in line)
    assert command == f"devassist trace approve {trace_id} --approve   (or --reject; --args '{{…}}')"
    page = beside(live, "trace", "show", trace_id).stdout
    assert re.search(
        r'^Waits for     approval: pay {"amount": 70}\n  asked       20\S+ \S+, in step 1\n'
        r"  because     this tool needs a person's approval\n  thought     t\n              " + re.escape(command),
        page, re.MULTILINE,
    ), page  # fmt: skip
    result = beside(live, *shlex.split(command.partition("   ")[0])[1:])
    assert (result.exit_code, result.stdout) == (0, f'approved pay {{"amount": 70}}\n{trace_id}  succeeded\n')
    assert "paid" in beside(live, "trace", "show", trace_id).stdout


def test_changed_arguments_are_said_and_shown(live: Live) -> None:
    """Both arguments and both digests, and who did it; the same word again changes nothing, another ends with 1."""
    trace_id, _ = ask(live, "pay")
    approve = ("trace", "approve", trace_id, "--approve", "--args", '{"amount": 50}')
    result = beside(live, *approve, "--note", "too much")
    first = result.stdout.splitlines()[0]
    assert re.fullmatch(
        r'approved pay {"amount": 50} instead of {"amount": 70}; digest [0-9a-f]{12}, now [0-9a-f]{12}: too much', first
    )
    page = beside(live, "trace", "show", trace_id).stdout
    assert re.search(r"^People\n  \S+ \S+  local  " + re.escape(first) + "$", page, re.MULTILINE)
    assert "(said before)" in beside(live, *approve).stdout
    result = beside(live, "trace", "approve", trace_id, "--reject")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "already_decided: it was approved with other arguments by local" in result.stderr
    assert [beside(live, "trace", verb, trace_id).exit_code for verb in ("verify", "replay")] == [0, 0]
    events = lines(beside(live, "trace", "show", trace_id, "--events", "--json").stdout)
    assert [e["actor_name"] for e in events if "actor_name" in e] == ["local"]


def test_a_rejection_and_the_answer_object(live: Live) -> None:
    """``--json`` prints the run, and nothing else."""
    trace_id, _ = ask(live, "pay")
    run = json.loads(beside(live, "trace", "approve", trace_id, "--reject", "--json").stdout)
    assert (run["trace_id"], run["status"], run["steps"][0]["error"]["code"]) == (
        trace_id, "succeeded", "approval_rejected"
    )  # fmt: skip


def test_a_doubt_is_settled_with_the_command_that_is_shown(live: Live) -> None:
    """With the result that is known, which the model is shown."""
    trace_id, told = ask(live, "mail")
    assert f"devassist trace settle {trace_id} --happened --result '…'   (or --repeat, --abandon)" in told
    result = beside(live, "trace", "settle", trace_id, "--happened", "--result", '{"id": 7}')
    assert (
        result.stdout == f'mail {{"to": "a"}}: settled as having happened, result {{"id":7}}\n{trace_id}  succeeded\n'
    )
    assert '"id": 7' in beside(live, "trace", "show", trace_id).stdout


def test_whoever_is_asked_sees_why(live: Live) -> None:
    """Since when, which call of which step, and what its last attempt came to; native calls have no thought."""
    trace_id, _ = ask(live, "mail")
    page = beside(live, "trace", "show", trace_id).stdout
    why = "because     mail did not end within 0.05 s; whether it took effect is not known."
    assert re.search(
        rf"^Waits for     settlement: mail .*\n  asked       20.*, in step 1\n  {why}\n", page, re.MULTILINE
    ), page
    trace_id, _ = ask(live, "both", "--agent", "teller")
    page = beside(live, "trace", "show", trace_id).stdout
    asked = r"in step 1\.2\n  because     this tool needs a person's approval\n              devassist"
    assert re.search(rf"^Waits for     approval: pay .*\n  asked       20.*, {asked}", page, re.MULTILINE), page


def test_given_up_and_repeated(live: Live) -> None:
    """Repeated, it is asked about again; given up, the run fails, which is no failure of the command."""
    trace_id, _ = ask(live, "mail")
    assert beside(live, "trace", "settle", trace_id, "--repeat").stdout.endswith("  awaiting_approval\n")
    result = beside(live, "trace", "settle", trace_id, "--abandon")
    assert (result.exit_code, result.stdout) == (0, f'mail {{"to": "a"}}: given up\n{trace_id}  failed\n')


def test_of_several_calls_the_one_is_named(live: Live) -> None:
    """Doubts that were told stay open after the run; each is shown with its command, numbered as the steps are."""
    trace_id, told = ask(live, "both", "--agent", "teller")
    assert "trace approve" in told
    beside(live, "trace", "approve", trace_id, "--reject")
    beside(live, "trace", "approve", trace_id, "--approve")  # of the second mail, while the first is in doubt
    page = beside(live, "trace", "show", trace_id).stdout
    for call_number in (1, 3):
        assert f"devassist trace settle {trace_id} --step 1 --call {call_number} --happened" in page
    result = beside(live, "trace", "settle", trace_id, "--happened")
    assert result.exit_code == 2
    assert '--step 1 --call 1  mail {"to": "a"}\n  --step 1 --call 3  mail {"to": "c"}' in result.stderr
    result = beside(live, "trace", "settle", trace_id, "--step", "1", "--call", "3", "--happened", "--note", "seen")
    assert result.stdout == f'mail {{"to": "c"}}: settled as having happened: seen\n{trace_id}  succeeded\n'
    page = beside(live, "trace", "show", trace_id).stdout
    assert f"devassist trace settle {trace_id} --happened" in page
    assert '  local  mail {"to": "c"}: settled as having happened: seen\n' in page
    assert page.count("in doubt: whether this call took effect is not known") == 1
    assert page.count("in doubt then: it was settled since as having happened") == 1
    refused = beside(live, "trace", "settle", trace_id, "--repeat").stderr
    assert "not_waiting: the run has ended, so the call cannot be repeated" in refused


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("approve", "T"), 2, "--approve"),
        (("approve", "T", "--approve", "--args", "{"), 2, "no JSON"),
        (("approve", "T", "--approve", "--args", "[1]"), 2, "JSON object"),
        (("approve", "T", "--approve", "--args", '{"amount": "x"}'), 2, "/amount: expected integer"),
        (("approve", "T", "--approve", "--digest", "0" * 12), 2, "--digest"),
        (("approve", "T", "--reject", "--args", "{}"), 2, "approve"),
        (("approve", "T", "--approve", "--reject"), 2, "one of them"),
        (("settle", "T"), 2, "--happened"),
        (("settle", "T", "--happened"), 1, "doubt_not_found"),
        (("settle", "T", "--happened", "--result", "NaN"), 2, "no JSON"),
        (("approve", "0" * 32, "--approve"), 1, "run_not_found"),
    ],
)
def test_wrong_use(live: Live, waiting: str, args: tuple[str, ...], code: int, said: str) -> None:
    """It says what would be right, and the run waits on."""
    result = beside(live, "trace", *(waiting if arg == "T" else arg for arg in args))
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    assert said in result.stderr
    assert json.loads(beside(live, "trace", "show", waiting, "--json").stdout)["status"] == "awaiting_approval"


def test_without_a_server_the_answer_waits_for_one(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is recorded; the next process that drives the directory goes on with the run."""
    for name, value in script(place / "s.json", *RULES).items():
        monkeypatch.setenv(name, value)
    result = here("ask", "pay", "--agent", "dev")
    assert result.exit_code == 1
    (row,) = lines(invoke("trace", "list", "--json").stdout)
    result = invoke("trace", "approve", row["trace_id"], "--approve")
    said = f"{row['trace_id']}  recorded; it goes on when a server drives this data directory\n"
    assert result.stdout == 'approved pay {"amount": 70}\n' + said
    assert "by local" in invoke("trace", "show", row["trace_id"], "--events").stdout
    assert here("ask", "hi").exit_code == 0
    assert {r["status"] for r in lines(invoke("trace", "list", "--json").stdout)} == {"succeeded"}

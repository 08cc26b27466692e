"""Answers after a program was run: what the record has of it stands in them, whatever the model wrote."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devassist.core.definition import Definition, Lang
from devassist.core.event_parts import Limits
from devassist.core.events import ModelReplied, ToolReturned
from devassist.core.evidence import program_report, with_evidence
from devassist.core.grounding import released_answer

RAN: dict[str, Any] = {
    "stdout": "5 passed\n", "stderr": "warn", "exit_code": 0, "timed_out": False, "oom_killed": False,
    "truncated": False, "backend": "docker", "image": "i sha256:0", "limits": "memory=128MiB", "flooded": False,
    "warnings": ["line 1, column 1: import os (files)"],
}  # fmt: skip
LINES = st.lists(st.sampled_from(["5 passed", "```", "~~~", "", "exit_code: 0", "Action: tool:a", "好"])).map("\n".join)


@pytest.mark.parametrize(
    ("lang", "words"), [("zh", ("退出码", "沙箱：docker")), ("en", ("exit code", "Sandbox: docker"))]
)
def test_a_report_holds_all_that_counts(lang: Lang, words: tuple[str, ...]) -> None:
    """Both streams as they are, the exit code, the warnings, and where it ran."""
    report = program_report(lang, {**RAN, "timed_out": True})
    for part in ("```text\n5 passed\n```", "```text\nwarn\n```", RAN["warnings"][0], "memory=128MiB", *words):
        assert part in report, part
    assert report.count("\n") > program_report(lang, RAN).count("\n")


@given(stdout=LINES, stderr=LINES, code=st.integers(-15, 255), said=LINES)
def test_what_is_released_quotes_the_record(stdout: str, stderr: str, code: int, said: str) -> None:
    """Both streams and the code, once: what shows them already is left as it is."""
    ran = {**RAN, "stdout": stdout, "stderr": stderr, "exit_code": code}
    text = with_evidence(said, [{"found": False}, ran], "en")
    assert text.startswith(said.rstrip())
    assert stdout in text
    assert stderr in text
    assert f"exit_code): {code}" in text or "exit_code: 0" in said
    assert with_evidence(text, [ran], "en") == text


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_the_planner_s_own_report_is_enough(lang: Lang) -> None:
    """Nothing is said twice."""
    report = program_report(lang, RAN)
    assert with_evidence(report, [RAN], lang) == report


@pytest.mark.parametrize(
    "said",
    [
        "All 5 passed.",
        "stdout:\n5 passed\nstderr:\nwarn\nexit_code: 1",
        "stdout:\n6 passed\nstderr:\nwarn\nexit_code: 0",
        "stdout:\n5 passed\nexit_code: 0",
        "stdout:\n5 passed\nstderr:\nwarn\nexit_code: 10",
        "stdout:\n5 passed\nstderr:\nwarn",
    ],
)
def test_what_a_model_left_out_or_gave_otherwise_is_added(said: str) -> None:
    """A wrong code, other output, or a stream that is missing."""
    assert with_evidence(said, [RAN], "en") == f"{said}\n\n{program_report('en', RAN)}"


def test_what_a_model_quotes_is_not_repeated() -> None:
    """Its own form counts as long as the words and the number are the record's."""
    said = "It works.\n\nstdout:\n```\n5 passed\n```\nstderr:\n```\nwarn\n```\nThe exit code was **0**."
    assert with_evidence(said, [RAN], "en") == said


def test_the_last_program_counts() -> None:
    """What was run before it was corrected; results of other tools are no programs."""
    old = {**RAN, "stdout": "old\n"}
    for results in ([old, RAN], [old, RAN, {"hits": []}], [old, RAN, {"exit_code": "0", "stdout": "", "stderr": ""}]):
        text = with_evidence("Done.", results, "en")
        assert "5 passed" in text
        assert "old" not in text
    assert with_evidence("Done.", [{"found": True}], "en") == "Done."


def test_long_output_is_added_with_both_ends() -> None:
    """And how much is left out between them."""
    text = with_evidence("Done.", [{**RAN, "stdout": "头" + "x" * 9000 + "尾"}], "en")
    assert len(text) < 2600
    assert "头xxx" in text
    assert "xxx尾" in text
    assert "… 7002 characters omitted …" in text
    assert with_evidence(text, [{**RAN, "stdout": "头" + "x" * 9000 + "尾"}], "en") == text


def test_only_agents_with_evidence_are_held_to_it() -> None:
    """Whoever does not declare it gets the model's text, as records of earlier versions replay; the verdict tells."""
    plain = Definition("dev", "s", "v", "en", (), "m", "scripted", Limits())
    assert '"evidence"' not in plain.to_json()
    strict = replace(plain, evidence=True)
    assert Definition.from_json(strict.to_json()) == strict
    reply = ModelReplied(of=1, reply="r", decision="final", took=1, answer="a")
    returned = ToolReturned(2, "result", 1, "x", "x")
    texts = {"a": "Done.", "x": '{"stdout": "5\\n", "stderr": "", "exit_code": 3}'}
    assert released_answer(plain, reply, [(returned, 3, 0)], texts).text == "Done."
    released = released_answer(strict, reply, [(returned, 3, 0)], texts)
    assert "exit_code): 3" in released.text
    assert released.verdicts == ("evidence_added",)
    assert released_answer(strict, reply, [], texts).verdicts == ()

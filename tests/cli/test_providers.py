"""``ask`` and ``log`` where the provider throttles: nothing is silent, and what came of it can be listed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.kit import invoke, lines
from tests.provider.fake import Answer, FakeProvider, refusal, throttled
from tests.provider.threaded import listening
from tests.runtime.world import final


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProvider]:
    """The provider that is set, and no other."""
    with listening([Answer(final("Fine."))]) as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.base_url)
        monkeypatch.setenv("OPENAI_MODEL", "m-1")
        yield fake


@pytest.fixture
def spare(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProvider]:
    """The fallback."""
    with listening([Answer(final("From the fallback."))]) as fake:
        models = [{"base_url": fake.base_url, "model": "m-2"}]
        monkeypatch.setenv("DEVASSIST_FALLBACK_MODELS", json.dumps(models))
        yield fake


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("are you there?", "s: The model provider is throttling; the run tries again by itself."),
        ("你在吗？", "s: 模型服务正在限流，到时会自动重试。"),
    ],
)
def test_a_wait_is_told_on_stderr(own: FakeProvider, question: str, said: str) -> None:
    """One line with its length and reason; the answer alone is on stdout, and nothing is said of a mark."""
    own.then(throttled("1"), Answer(final("Fine.")))
    result = invoke("ask", question)
    assert (result.exit_code, result.stdout) == (0, "Fine.\n")
    told = [line for line in result.stderr.splitlines() if line.startswith("waiting ")]
    assert len(told) == 1
    assert told[0].endswith(said)
    assert 1.0 <= float(told[0].split()[1]) <= 1.4
    assert "note:" not in result.stderr


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("are you there?", "The model provider is throttling; try again later."),
        ("你在吗？", "模型服务正在限流，请稍后再试。"),
    ],
)
def test_a_wait_that_is_too_long_is_a_failure_that_names_it(own: FakeProvider, question: str, said: str) -> None:
    """In the question's language: that it throttles, and for how long it asks to be left alone."""
    own.then(throttled("3600"))
    result = invoke("ask", question)
    assert (result.exit_code, result.stdout) == (1, "")
    expected = f"failed: provider_rate_limited: {said} The provider answered 429 and asks for 3600 s without requests: "
    assert expected in result.stderr


def test_a_switch_is_told_and_listed(own: FakeProvider, spare: FakeProvider) -> None:
    """On stderr in the question's language, in the JSON answer, and by one query of the log."""
    own.then(throttled("30"))
    result = invoke("ask", "are you there?")
    assert result.stdout == "From the fallback.\n"
    assert "note: The agent's own model was not available; the fallback model m-2 was used." in result.stderr
    assert "备用模型 m-2" in invoke("ask", "你在吗？").stderr
    answer: dict[str, Any] = json.loads(invoke("ask", "and now?", "--json").stdout)
    assert [each["code"] for each in answer["degraded"]] == ["model_switched"]
    own.then(Answer(final("Fine.")))
    fine = json.loads(invoke("ask", "and now?", "--json").stdout)
    assert (fine["answer"], fine["degraded"]) == ("Fine.", [])
    marked = lines(invoke("log", "query", "--degraded", "--json").stdout)
    assert [row["degraded"] for row in marked] == ["model_switched"] * 3
    assert marked[0]["trace_id"] == answer["trace_id"]
    assert marked == lines(invoke("log", "query", "--degraded", "model_switched", "--json").stdout)
    assert lines(invoke("log", "query", "--degraded", "unstructured", "--json").stdout) == []
    table = invoke("log", "query", "--degraded", "--limit", "1").stdout
    assert "model_switched" in table
    wrong = invoke("log", "query", "--degraded", "Nonsense")
    assert wrong.exit_code == 2
    assert "such as model_switched" in wrong.stderr


def test_a_failure_is_told_with_the_providers_words(own: FakeProvider) -> None:
    """And not waited for where waiting would not help."""
    own.then(refusal(401, "invalid api key"))
    result = invoke("ask", "are you there?")
    assert result.exit_code == 1
    assert "failed: provider_auth_failed" in result.stderr
    assert "invalid api key" in result.stderr
    assert "waiting" not in result.stderr

"""What a provider's refusal means: wordings, statuses, and how long to wait."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from devassist.llm.classify import provider_failure, retry_after_ms
from tests.llm.cases import case

NOW = datetime(2026, 5, 6, 10, 0, tzinfo=UTC).timestamp()


@pytest.mark.parametrize("number", range(6))
def test_b17_context_overflow_is_told_apart(number: int) -> None:
    """Each provider's wording of an overlong prompt is the same error of ours, and is not retried."""
    given = case("B17")["input"][number]
    failure = provider_failure(given["s"], given["b"])
    assert (failure.code, failure.retryable, failure.provider_status) == ("context_length_exceeded", False, 400)


def test_b17_control_is_a_plain_rejection() -> None:
    """A bad tool name is a rejected request, not an overflow, and is not retried either."""
    given = case("B17")["input"][6]
    failure = provider_failure(given["s"], given["b"])
    assert (failure.code, failure.retryable) == ("provider_rejected", False)


@pytest.mark.parametrize(
    "message",
    [
        "prompt is too long: 210000 tokens > 200000 maximum",
        "Your request exceeded model token limit: 8192",
        "the request exceeds the available context size (4096 tokens)",
        "Range of input length should be [1, 30720]",
        "Please reduce the length of the messages or completion.",
        "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
        "The input token count (1200000) exceeds the maximum number of tokens allowed, see context window exceeded",
    ],
)
def test_more_wordings_of_an_overflow(message: str) -> None:
    """Wordings of further providers are known too."""
    assert provider_failure(400, {"error": {"message": message}}).code == "context_length_exceeded"


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens is too large: 100000. This model supports at most 4096 completion tokens",
        "Invalid 'input[0].name': string too long. Expected a string with maximum length 64",
        "Unrecognized request argument supplied: stream_options",
    ],
)
def test_look_alikes_are_no_overflow(message: str) -> None:
    """Other complaints about lengths and arguments are plain rejections."""
    assert provider_failure(400, {"error": {"message": message}}).code == "provider_rejected"


@pytest.mark.parametrize(
    ("status", "code", "retryable"),
    [
        (400, "provider_rejected", False),
        (401, "provider_auth_failed", False),
        (402, "provider_quota_exhausted", False),
        (403, "provider_auth_failed", False),
        (404, "provider_rejected", False),
        (408, "provider_error", True),
        (409, "provider_error", True),
        (422, "provider_rejected", False),
        (425, "provider_error", True),
        (429, "provider_rate_limited", True),
        (500, "provider_error", True),
        (502, "provider_error", True),
        (503, "provider_error", True),
        (529, "provider_error", True),
    ],
)
def test_the_status_says_whether_to_try_again(status: int, code: str, retryable: bool) -> None:
    """Overload and faults of the provider may be retried; a request that it rejects may not."""
    failure = provider_failure(status, None)
    assert (failure.code, failure.retryable, failure.provider_status) == (code, retryable, status)


@pytest.mark.parametrize(
    ("body", "status", "retryable"),
    [
        ({"error": {"message": "upstream returned 502", "code": 502}, "choices": None}, 502, True),
        ({"error": {"message": "overloaded", "code": "529"}}, 529, True),
        ({"error": {"type": "overloaded_error"}}, 529, True),
        ({"error": {"type": "invalid_request_error", "message": "no"}}, 400, False),
        ({"object": "error", "message": "bad", "code": 400}, 400, False),
        ({"error": "something broke"}, 200, True),
    ],
)
def test_the_number_inside_a_body_sent_with_200_counts(body: dict[str, Any], status: int, retryable: bool) -> None:
    """An error under status 200 has the status that its body names, or is an unknown, retryable one."""
    failure = provider_failure(200, body)
    assert (failure.provider_status, failure.retryable) == (status, retryable)


def test_the_message_of_the_provider_is_kept() -> None:
    """The detail quotes what the provider said, from wherever its body says it."""
    assert "slow down" in provider_failure(429, {"error": {"message": "slow down"}}).detail
    assert "Not here" in provider_failure(404, {"detail": "Not here"}).detail
    assert "<h1>Bad" in provider_failure(502, None, text="<h1>Bad gateway</h1>").detail


def test_the_time_that_was_asked_for_is_told() -> None:
    """In whole seconds, before the provider's own words, which may be long; nothing where none was asked for."""
    body = {"error": {"message": "slow down"}}
    told = provider_failure(429, body, retry_ms=3_599_200).detail
    assert told == "The provider answered 429 and asks for 3600 s without requests: slow down"
    assert provider_failure(429, body).detail == "The provider answered 429: slow down"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"error": {"code": "insufficient_quota", "message": "You exceeded your quota"}}, "provider_quota_exhausted"),
        ({"error": {"code": "content_filter", "message": "filtered"}}, "content_filtered"),
        ({"error": {"innererror": {"code": "ResponsibleAIPolicyViolation"}, "code": "x"}}, "content_filtered"),
    ],
)
def test_what_never_helps_to_repeat(body: dict[str, Any], code: str) -> None:
    """An empty account (though sent with 429) and a filtered prompt are not retried."""
    failure = provider_failure(429, body)
    assert (failure.code, failure.retryable) == (code, False)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"Retry-After": "7"}, 7_000),
        ({"Retry-After": " 0 "}, 0),
        ({"Retry-After": "1.5"}, 1_500),
        ({"retry-after-ms": "250", "Retry-After": "7"}, 250),
        ({"Retry-After": "Wed, 06 May 2026 10:00:20 GMT"}, 20_000),
        ({"Retry-After": "Wed, 06 May 2026 09:59:00 GMT"}, 0),
        ({"Retry-After": "Wed, 06 May 2026 18:00:20 +0800"}, 20_000),
        ({"Retry-After": "Wed, 06 May 2126 10:00:20 GMT"}, 7 * 24 * 3600 * 1000),
        ({"Retry-After": "999999999999999"}, 7 * 24 * 3600 * 1000),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-3"}, None),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "Wed, 99 May 2026 99:00:20 GMT"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_both_forms(headers: dict[str, str], wait: int | None) -> None:
    """Seconds and HTTP dates are understood, the past is no wait, and nonsense is no answer."""
    assert retry_after_ms(headers, NOW) == wait

"""What went wrong at a provider, read from status, headers and body. Pure: the wall clock is an argument.

One wording per provider, so this is a list of wordings; ``provider_failure`` is the only place that decides whether a
refusal may be repeated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, cast

from devassist.core.errors import ProviderError

CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
CONTENT_FILTERED = "content_filtered"
RATE_LIMITED = "provider_rate_limited"
QUOTA_EXHAUSTED = "provider_quota_exhausted"
AUTH_FAILED = "provider_auth_failed"
REJECTED = "provider_rejected"
PROVIDER_ERROR = "provider_error"

_LONGEST_WAIT_MS = 7 * 24 * 3600 * 1000

_OVERFLOW_CODES = frozenset(
    {"context_length_exceeded", "exceed_context_size_error", "context_window_exceeded", "contextwindowexceedederror"}
)
_OVERFLOW_WORDINGS = re.compile(
    r"maximum context length"
    r"|(exceed|longer than|larger than|greater than).{0,40}context (length|size|window)"
    r"|context (length|size|window).{0,40}exceed"
    r"|prompt exceeds? max length"
    r"|(prompt|input|request) (is|was) too (long|large)"
    r"|input length.{0,40}exceeds? the maximum"
    r"|prompt token count.{0,40}exceeds? the limit"
    r"|maximum prompt length"
    r"|exceeded model token limit"
    r"|range of input length should be"
    r"|reduce the length of (the|your) (messages|prompt)",
    re.IGNORECASE,
)
_FILTER_CODES = frozenset({"content_filter", "content_policy_violation", "responsibleaipolicyviolation"})
_QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "insufficient_balance"})
_RETRYABLE_4XX = frozenset({408, 409, 425, 429})
_STATUS_OF_WORD = {
    "overloaded_error": 529,
    "overloaded": 529,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "invalid_request_error": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "server_error": 500,
    "internal_server_error": 500,
    "api_error": 500,
    "timeout_error": 504,
}


def retry_after_ms(headers: Mapping[str, str], wall_s: float) -> int | None:
    """What the provider asked us to wait, from ``retry-after-ms`` or ``Retry-After``; None when absent or unreadable.

    Both forms of RFC 9110 are understood, seconds and an HTTP date; a date in the past is 0. ``wall_s`` is the time
    now in seconds since the epoch. The answer lies within 0 and seven days.
    """
    wait = _number(headers.get("retry-after-ms", ""))
    if wait is None:
        text = headers.get("Retry-After", "")
        seconds = _number(text)
        wait = _until(text, wall_s) if seconds is None else seconds * 1000
    return None if wait is None else min(_LONGEST_WAIT_MS, max(0, round(wait)))


def _number(text: str) -> float | None:
    text = text.strip()
    return float(text) if re.fullmatch(r"[0-9]{1,15}(\.[0-9]{0,9})?", text) else None


def _until(http_date: str, wall_s: float) -> float | None:
    try:
        moment = parsedate_to_datetime(http_date)
        return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - wall_s) * 1000
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def as_object(value: object) -> dict[str, Any]:
    """The value when it is a JSON object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def error_in(body: object) -> object | None:
    """The error that a JSON body carries, also one sent with status 200; None when it carries none."""
    holder = as_object(body)
    error = holder.get("error")
    if error:
        return error
    return holder if str(holder.get("object") or holder.get("type")) == "error" else None


def provider_failure(status: int, body: object, *, text: str = "", retry_ms: int | None = None) -> ProviderError:
    """The error for an answer of HTTP ``status``: ``body`` is its JSON (None when it was none), ``text`` its raw head.

    The number inside a body sent with 2xx stands before the HTTP status. The detail is neither shortened nor cleaned
    of secrets; the adapter does both. Codes: ``context_length_exceeded``, ``content_filtered``,
    ``provider_quota_exhausted``, ``provider_auth_failed``, ``provider_rejected`` (never retryable),
    ``provider_rate_limited`` and ``provider_error`` (retryable).
    """
    error = error_in(body)
    fields = as_object(error)
    message = _message(error, body, text)
    words = _words(fields, as_object(body))
    hidden = _hidden_status(fields, as_object(body), words) if 200 <= status < 300 else status
    code, retryable = _judge(hidden, words, message)
    return ProviderError(
        f"The provider answered {hidden or status}{_asking(retry_ms)}: {message}",
        code=code,
        retryable=retryable,
        retry_after_ms=retry_ms,
        provider_status=hidden or status,
    )


def _asking(retry_ms: int | None) -> str:
    """Before the provider's own words, which may be cut short."""
    return f" and asks for {-(-retry_ms // 1000)} s without requests" if retry_ms else ""


def _judge(status: int | None, words: frozenset[str], message: str) -> tuple[str, bool]:
    """(code, retryable); ``status`` None means that nothing but the presence of an error is known."""
    if status not in (401, 403, 404, 429) and (words & _OVERFLOW_CODES or _OVERFLOW_WORDINGS.search(message)):
        return CONTEXT_LENGTH_EXCEEDED, False
    if words & _FILTER_CODES:
        return CONTENT_FILTERED, False
    if words & _QUOTA_CODES or status == 402:
        return QUOTA_EXHAUSTED, False
    if status == 429:
        return RATE_LIMITED, True
    if status in (401, 403):
        return AUTH_FAILED, False
    if status is None or status >= 500 or status in _RETRYABLE_4XX:
        return PROVIDER_ERROR, True
    return REJECTED, False


def _message(error: object, body: object, text: str) -> str:
    """The most telling text of an error body; never empty."""
    if isinstance(error, str):
        return error
    holder = as_object(body)
    for source in (as_object(error), holder):
        for key in ("message", "detail", "msg", "error_description"):
            value = source.get(key)
            if isinstance(value, str) and value.strip():
                return value
        if isinstance(source.get("type"), str):
            return str(source["type"])
    return text.strip() or "(empty body)"


def _words(fields: dict[str, Any], body: dict[str, Any]) -> frozenset[str]:
    """The machine-readable words of an error, in lower case; an inner code (Azure's) counts too."""
    inner = as_object(fields.get("innererror"))
    found = (fields.get("code"), fields.get("type"), fields.get("status"), body.get("code"), inner.get("code"))
    return frozenset(word.lower() for word in found if isinstance(word, str))


def _hidden_status(fields: dict[str, Any], body: dict[str, Any], words: frozenset[str]) -> int | None:
    """The HTTP status that a body sent with 200 means, from a number or from a known word."""
    for value in (fields.get("code"), fields.get("status"), fields.get("status_code"), body.get("code")):
        if isinstance(value, int | str) and re.fullmatch(r"[45][0-9]{2}", str(value)):
            return int(value)
    return next((_STATUS_OF_WORD[word] for word in sorted(words) if word in _STATUS_OF_WORD), None)

"""What a request may be: bodies, names, hosts, sizes, paths; and that no refusal tells more than it should."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.kit import Api, Live, calling, raw, serving

MARK = "sekret-7f3a"
LIMIT = 65536
OWN = ["http://localhost:3000", "http://127.0.0.1:8000", "http://[::1]:1", "https://DevAssist.example"]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    data = tmp_path_factory.mktemp("edge")
    with serving(data, max_body_bytes=str(LIMIT), allowed_hosts="devassist.example") as made:
        yield made


def problem(reply: Any, status: int, code: str) -> dict[str, Any]:
    """The problem object of a reply, which must be one."""
    found = reply.json
    assert (reply.status, found["status"], found["code"]) == (status, status, code), found
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert found["request_id"] == reply.headers["X-Request-Id"]
    assert found["type"] == f"urn:devassist:error:{code}"
    assert found["title"]
    assert found["detail"]
    for trace in ("Traceback", "site-packages", ".py"):
        assert trace not in reply.text
    return found


BAD_BODIES: list[tuple[dict[str, Any], str]] = [
    ({}, "/message"),
    ({"message": ""}, "/message"),
    ({"message": "x" * 32_001}, "/message"),
    ({"message": 7}, "/message"),
    ({"message": [MARK]}, "/message"),
    ({"message": "hi", "unknown": MARK}, "/unknown"),
    ({"message": "hi", "a/b~c": MARK}, "/a~1b~0c"),
    ({"message": "hi", "conversation_id": f"{MARK} with spaces"}, "/conversation_id"),
    ({"message": "hi", "conversation_id": "x\n"}, "/conversation_id"),
    ({"message": "hi", "conversation_id": "x" * 65}, "/conversation_id"),
    ({"message": "hi", "collection_name": f"{MARK}!"}, "/collection_name"),
    ({"message": "hi", "history": [{"role": "system", "content": MARK}]}, "/history/0/role"),
    ({"message": "hi", "history": [{"role": "user", "content": MARK, "more": 1}]}, "/history/0/more"),
    ({"message": "hi", "tools": MARK}, "/tools"),
    ({"message": "hi", "tools": [{"name": MARK}]}, "/tools/0"),
    ({"message": "hi", "use_agent": "yes"}, "/use_agent"),
    ({"message": "hi", "use_rag": 1}, "/use_rag"),
    ({"message": "hi", "as_of": MARK}, "/as_of"),
    ({"message": "hi", "as_of": 20260101}, "/as_of"),
    ({"message": "hi", "known_at": MARK}, "/known_at"),
    ({"message": "hi", "subject": ""}, "/subject"),
    ({"message": "hi", "replaces": f"{MARK}"}, "/replaces"),
]


@pytest.mark.parametrize(("body", "path"), BAD_BODIES, ids=[path for _, path in BAD_BODIES])
@pytest.mark.parametrize("route", ["/chat", "/agent"])
async def test_a_body_that_does_not_fit_is_422(live: Live, route: str, body: dict[str, Any], path: str) -> None:
    """Each finding points at its field (RFC 6901), and what was sent is never repeated."""
    async with calling(live) as api:
        found = problem(await api.post(route, body), 422, "invalid_request")
    assert path in [error["path"] for error in found["errors"]]
    assert MARK not in json.dumps(found)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"message"',
        b'{"message": "hi"} {}',
        b'{"message": NaN}',
        b'{"message": "\xff\xfe"}',
        b'{"message": "\\ud800"}',
        b'{"message": "\\udc00 x"}',
        b'{"message": ' + b"9" * 3000 + b"}",
        b'{"message": "hi", "as_of": ' + b"9" * 3000 + b"}",
        b'{"message": "hi", "tools": ' + b"[" * 1500 + b"]" * 1500 + b"}",
        b'{"message": "hi\x01"}',
        b"{'message': 'hi'}",
        '{"message": "hi"}'.encode("utf-16"),
    ],
)
async def test_a_body_that_is_no_json_of_ours_is_422(api: Api, body: bytes) -> None:
    """Broken, deep, huge or badly encoded: a problem, never a 500."""
    reply = await api.send("POST", "/agent", data=body, headers={"Content-Type": "application/json"})
    problem(reply, 422, "invalid_request")


@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream", "application/json; charset=gbk"])
async def test_the_content_type_does_not_matter(api: Api, kind: str) -> None:
    """A body that is JSON in UTF-8 is read whatever it is called, so ``curl -d`` needs no header."""
    reply = await api.send("POST", "/agent", data='{"message": "你好"}'.encode(), headers={"Content-Type": kind})
    assert reply.json["status"] == "succeeded"


async def test_many_findings_are_counted_and_not_all_listed(api: Api) -> None:
    """A body with hundreds of unknown fields does not come back as a long list."""
    found = problem(await api.post("/chat", {f"f{i}": 1 for i in range(300)}), 422, "invalid_request")
    assert "301" in found["detail"]
    assert len(found["errors"]) == 20


@pytest.mark.parametrize("text", ["a\0b", "\u2028\u2029\x85", "🚀" * 500, "\u202ebidi", "\r\n", " "])
async def test_any_text_is_a_message(api: Api, text: str) -> None:
    """NUL, line separators, emoji and bidi controls are stored and given back as they are."""
    trace_id = (await api.ask(text))["trace_id"]
    detail = (await api.get(f"/admin/agent-traces/{trace_id}")).json
    assert detail["verification"]["ok"]
    ref = detail["events"][0]["body"]["message"]
    assert (await api.get(f"/runs/{trace_id}/payloads/{ref}")).text == text


@pytest.mark.parametrize("user", ["", "a b", "x" * 65, "../x", "ü"])
async def test_a_user_name_of_other_letters_is_refused(api: Api, user: str) -> None:
    """X-User-Id follows the pattern of names."""
    problem(await api.post("/agent", {"message": "hi"}, headers={"X-User-Id": user}), 422, "invalid_request")


@pytest.mark.parametrize("key", ["", "k" * 256])
async def test_an_idempotency_key_has_1_to_255_characters(api: Api, key: str) -> None:
    """An empty or endless key is refused."""
    problem(await api.post("/agent", {"message": "hi"}, headers={"Idempotency-Key": key}), 422, "invalid_request")


async def test_a_long_body_is_413_before_it_is_read(live: Live) -> None:
    """The declared length is enough, and nothing is stored."""
    before = live.ask(live.services.journal.tip())
    head = b"POST /agent HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000\r\n\r\n"
    status, headers, body = await raw(live.port, head)
    assert (status, json.loads(body)["code"]) == (413, "body_too_large")
    assert b"application/problem+json" in headers
    assert str(LIMIT) in json.loads(body)["detail"]
    assert live.ask(live.services.journal.tip()) == before


async def test_a_chunked_body_is_413_once_it_passes_the_limit(live: Live) -> None:
    """A body that does not say its length is cut off where the limit is."""
    head = b"POST /chat HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"4000\r\n" + b" " * 0x4000 + b"\r\n"
    status, headers, body = await raw(live.port, head, chunk * 4, chunk)
    assert (status, json.loads(body)["code"]) == (413, "body_too_large")
    assert b"application/problem+json" in headers
    small = b'11\r\n{"message": "hi"}\r\n0\r\n\r\n'
    assert (await raw(live.port, head, small))[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "not_found"),
        ("POST", "/", 405, "method_not_allowed"),
        ("GET", "/chat", 405, "method_not_allowed"),
        ("DELETE", "/agent", 405, "method_not_allowed"),
        ("GET", "/runs/" + "0" * 32, 404, "run_not_found"),
        ("GET", "/runs/xyz", 404, "run_not_found"),
        ("GET", "/runs/" + "A" * 32, 404, "run_not_found"),
        ("GET", "/runs/" + "0" * 32 + "/events", 404, "run_not_found"),
        ("GET", "/runs/" + "0" * 32 + "/graph.mmd", 404, "run_not_found"),
        ("GET", "/runs/" + "0" * 32 + "/payloads/x", 404, "run_not_found"),
        ("POST", "/runs/" + "0" * 32 + "/cancel", 404, "run_not_found"),
        ("GET", "/admin/agent-traces/" + "0" * 32, 404, "run_not_found"),
        ("GET", "/conversations/none", 404, "conversation_not_found"),
        ("GET", "/api/chat", 404, "not_found"),
        ("GET", "/%ff%00/" + "x" * 3000, 404, "not_found"),
        ("POST", "/agent?stream=maybe", 422, "invalid_request"),
    ],
)
async def test_every_refusal_is_a_problem(api: Api, method: str, path: str, status: int, code: str) -> None:
    """Unknown paths, methods and names answer with problem+json like everything else."""
    reply = await api.send(method, path)
    found = problem(reply, status, code)
    assert len(reply.body) < 2000
    if status == 405:
        assert reply.headers["Allow"]
    assert found["instance"].startswith("/")


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8000", "127.0.0.1:1", "127.9.9.9", "[::1]:8000", "[::1]", "DevAssist.example:443"]
)
async def test_known_hosts_are_served(live: Live, host: str) -> None:
    """Loopback names and addresses, and those that the setting lists."""
    request = f"GET /livez HTTP/1.1\r\nHost: {host}\r\n\r\n"
    assert (await raw(live.port, request.encode()))[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "10.0.0.1", "127.0.0.1.evil.example:80"])
async def test_other_hosts_are_refused(live: Live, host: str) -> None:
    """A page that rebinds its name to this machine reaches nothing."""
    request = f"GET /livez HTTP/1.1\r\nHost: {host}\r\nX-Request-Id: r-1\r\n\r\n"
    status, head, body = await raw(live.port, request.encode())
    assert (status, json.loads(body)["code"]) == (400, "host_not_allowed")
    assert b"x-request-id: r-1" in head.lower()
    assert json.loads(body)["request_id"] == "r-1"


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost.evil.example", "file://", "x"])
@pytest.mark.parametrize("path", ["/agent", "/chat?stream=true", "/runs/00000000000000000000000000000000/cancel"])
async def test_pages_from_elsewhere_change_nothing(api: Api, live: Live, path: str, origin: str) -> None:
    """A web page that posts to this machine from a browser begins no run, though it needs no permission to send."""
    before = live.ask(live.services.journal.tip())
    headers = {"Origin": origin, "Content-Type": "text/plain"}
    problem(await api.send("POST", path, data=b'{"message": "hi"}', headers=headers), 403, "origin_not_allowed")
    assert live.ask(live.services.journal.tip()) == before


@pytest.mark.parametrize("origin", OWN)
async def test_our_own_pages_may_ask(api: Api, origin: str) -> None:
    """Pages of this machine and of the listed hosts are served, on any port."""
    reply = await api.post("/agent", {"message": "你好"}, headers={"Origin": origin})
    assert reply.json["status"] == "succeeded"
    assert reply.headers["X-Content-Type-Options"] == "nosniff"


async def test_the_request_id_is_the_callers_or_a_new_one(api: Api) -> None:
    """A plain id is taken over; anything else is replaced, not reflected."""
    assert (await api.get("/livez", headers={"X-Request-Id": "abc-1"})).headers["X-Request-Id"] == "abc-1"
    given = (await api.get("/livez", headers={"X-Request-Id": "<script>"})).headers["X-Request-Id"]
    assert len(given) == 32
    assert given != (await api.get("/livez")).headers["X-Request-Id"]


async def test_a_fault_of_ours_says_nothing_of_its_inside(
    api: Api, live: Live, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An unexpected exception is a 500 problem without its text, which stands in the log."""

    async def broken(*_: object) -> None:
        raise RuntimeError(MARK)

    monkeypatch.setattr(live.services.service, "view", broken)
    found = problem(await api.get("/runs/" + "0" * 32), 500, "internal")
    assert MARK not in json.dumps(found)
    assert MARK in caplog.text

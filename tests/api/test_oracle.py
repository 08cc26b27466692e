"""Time tells nothing of foreign ids: probes of ids that are somebody else's, and of ids that are nobody's, interleaved.

The bar: the medians of 1,000 foreign and 1,000 absent probes differ by no more than two halves of the absent ones do.
What halves differ by is a matter of chance too, so it is taken from many ways to halve them. Requests go to the
application in this process: a network would only hide a difference.
"""

from __future__ import annotations

import gc
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median, quantiles
from time import perf_counter_ns
from typing import Any

from devassist.api.app import create_app
from devassist.bootstrap import open_services
from devassist.config import load
from devassist.core.ids import time_of, uuid7
from devassist.runtime.services import Services
from tests.api.kit import OPERATOR, lifespan
from tests.api.probes import CONVERSATION, TRACE, Probe, probes

PROBES = 1000
RUNS = 20
TRIES = 3
"""Measurements of one route before it fails: others use this machine too."""
HALVINGS = 100
WARM = 50
LEAK_NS = 250_000
REPLACING = Probe("POST", "/agent", {"message": "你好"})
Asgi = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]


@dataclass
class Scene:
    """An application with keys; ids that are Ann's, and as many that are nobody's; Bob's key."""

    app: Asgi
    key: str
    foreign: list[dict[str, str]]
    absent: list[dict[str, str]]
    document: dict[str, Any]


async def request(
    app: Asgi, verb: str, path: str, key: str = "", body: Any = None, query: str = ""
) -> tuple[int, bytes, int]:
    """Status and body of one request, and the nanoseconds until its response was whole."""
    headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {key}".encode()), (b"x-request-id", b"r")]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": verb, "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": query.encode(), "root_path": "", "headers": headers,
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    sent = iter([{"type": "http.request", "body": _bytes(body)}])
    status, text, ended = 0, b"", 0

    async def receive() -> dict[str, Any]:
        return next(sent, {"type": "http.disconnect"})

    async def send(message: dict[str, Any]) -> None:
        nonlocal status, text, ended
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            text += message.get("body", b"")
            ended = perf_counter_ns()

    begun = perf_counter_ns()
    await app(scope, receive, send)
    return status, text, ended - begun


def _bytes(body: Any) -> bytes:
    return b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()


@asynccontextmanager
async def opened(data: Path) -> AsyncIterator[Scene]:
    """The application with its lifespan, on a new data directory."""
    settings = load({"data_dir": str(data / "data"), "sandbox_pool_size": "0", "embedder": "none"}, {})
    app = create_app(settings, lambda: open_services(settings, drive=True))
    async with lifespan(app):
        yield await _scene(app)


async def _scene(app: Any) -> Scene:
    services: Services = app._app.state.services
    keys = {name: (await services.access.create(OPERATOR, name, "user", expires=None)).token for name in ("ann", "bob")}
    runs: dict[str, list[dict[str, str]]] = {name: [] for name in keys}
    for number in range(RUNS):
        for name, key in keys.items():
            body = {"message": "你好", CONVERSATION: f"{name}-{number:02}"}
            status, text, _ = await request(app, "POST", "/agent", key, body)
            assert status == 200, text
            runs[name].append({TRACE: json.loads(text)[TRACE], CONVERSATION: body[CONVERSATION]})
    absent = [
        {TRACE: uuid7(time_of(bytes.fromhex(ids[TRACE])), os.urandom(10)).hex(), CONVERSATION: f"non-{number:02}"}
        for number, ids in enumerate(runs["ann"])
    ]
    document = json.loads((await request(app, "GET", "/openapi.json"))[1])
    return Scene(app, keys["bob"], runs["ann"], absent, document)


@dataclass
class Times:
    """Nanoseconds of interleaved probes."""

    foreign: list[int]
    absent: list[int]

    @property
    def difference(self) -> float:
        return abs(median(self.foreign) - median(self.absent))

    @property
    def halves(self) -> float:
        """By how much two halves of the absent ones may differ: all but one in a hundred ways to halve them do less."""
        chance, found = Random(7), list[float]()
        for _ in range(HALVINGS):
            mixed = chance.sample(self.absent, len(self.absent))
            found.append(abs(median(mixed[::2]) - median(mixed[1::2])))
        return quantiles(found, n=100)[-1]

    def said(self) -> str:
        return (
            f"medians {median(self.foreign) / 1000:.2f} us foreign, {median(self.absent) / 1000:.2f} us absent; "
            f"halves of the absent ones differ by up to {self.halves / 1000:.2f} us"
        )


async def measured(scene: Scene, probe: Probe, app: Asgi) -> Times:
    """``PROBES`` of each kind, in pairs whose order is drawn; the first ones warm up and do not count."""
    chance = Random(11)
    times: dict[bool, list[int]] = {True: [], False: []}
    more = {"ref": "A" * 43, "digest": "0" * 64, "step_index": "0"}
    gc.collect()
    gc.disable()
    try:
        for number in range(-WARM, PROBES):
            for is_foreign in chance.sample((True, False), 2):
                ids = (scene.foreign if is_foreign else scene.absent)[number % RUNS]
                body = {**probe.body, "replaces": ids[TRACE]} if probe is REPLACING and probe.body else probe.body
                status, _, took = await request(app, probe.verb, probe.to(**more, **ids), scene.key, body)
                assert status == 404
                if number >= 0:
                    times[is_foreign].append(took)
    finally:
        gc.enable()
    return Times(times[True], times[False])


async def test_foreign_and_absent_ids_take_the_same(tmp_path: Path) -> None:
    """On every route of the document that names a run or a conversation, and for a run that is to be replaced."""
    async with opened(tmp_path) as scene:
        for probe in [*probes(scene.document), REPLACING]:
            for attempt in range(TRIES):
                times = await measured(scene, probe, scene.app)
                if times.difference <= times.halves:
                    break
                assert attempt < TRIES - 1, f"{probe.verb} {probe.path}: {times.said()}"


async def test_a_difference_would_be_seen(tmp_path: Path) -> None:
    """An application that works a little longer on ids that exist does not pass."""
    async with opened(tmp_path) as scene:
        known = {ids[TRACE] for ids in scene.foreign}

        async def leaky(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
            until = perf_counter_ns() + (LEAK_NS if scope["path"].split("/")[2] in known else 0)
            while perf_counter_ns() < until:
                pass
            await scene.app(scope, receive, send)

        times = await measured(scene, Probe("GET", "/runs/{trace_id}", None), leaky)
        assert times.difference > times.halves, times.said()

"""Journey 2 over HTTP, on a real engine: write it and prove it, the Run button, and what becomes of a cancelled run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.fakes import call, final
from tests.api.kit import Api, Live, calling, serving
from tests.sandbox.docker_kit import require_engine, until_left

SEARCH = """def find(xs, x):
    low, high = 0, len(xs)
    while low < high:
        middle = (low + high) // 2
        if xs[middle] < x:
            low = middle + 1
        else:
            high = middle
    return low if low < len(xs) and xs[low] == x else -1

for xs, x, at in (([], 1, -1), ([1], 1, 0), ([1, 3], 3, 1), ([1, 3], 2, -1), (list(range(99)), 98, 98)):
    assert find(xs, x) == at, (xs, x)
print("5 passed")
"""
STREAMS = "import sys\nprint('出', '\\u0041`` ')\nprint('err', file=sys.stderr)\nsys.exit(3)"
BLOCKED = "n = len(().__class__.__bases__[0].__subclasses__())\nprint(n)"
FOREVER = "import time\nprint('start', flush=True)\nwhile True: time.sleep(0.05)"
SANDBOX_S = 60
"""The time that a program has."""
SANDBOX = {"sandbox_pool_size": "0", "sandbox_timeout": str(SANDBOX_S)}
RUN: dict[str, Any] = {"tools": ["execute_code"]}
RULES: list[dict[str, Any]] = [
    {"match": "binary search", "replies": [call("execute_code", "write it", code=SEARCH), final("It works.")]},
    {"match": "native", "replies": [
        {"calls": [{"id": "c1", "name": "execute_code", "arguments": {"code": BLOCKED}}]}, final("It was refused.")]},
    {"match": "escape", "replies": [call("execute_code", code=BLOCKED), final("It was refused.")]},
    {"replies": [final("hello")]},
]  # fmt: skip


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, in_ci: bool) -> Iterator[Live]:
    asyncio.run(require_engine(in_ci))
    with serving(
        tmp_path_factory.mktemp("programs"), RULES, sandbox_pool_size="0", sandbox_timeout=str(SANDBOX_S)
    ) as made:
        yield made


@pytest.fixture(scope="module")
def without_model(tmp_path_factory: pytest.TempPathFactory, in_ci: bool) -> Iterator[Live]:
    asyncio.run(require_engine(in_ci))
    with serving(tmp_path_factory.mktemp("planner"), **SANDBOX) as made:
        yield made


def programs(live: Live) -> Path:
    return live.data / "cache" / "sandbox"


def block(code: str) -> str:
    return f"```python\n{code}\n```"


async def test_write_it_and_prove_it(api: Api) -> None:
    """The answer shows what the record has though the model did not, to readers of the stream too; replay agrees."""
    page = await api.watch("write a binary search and run five tests")
    run = (await api.get(f"/runs/{page.meta['trace_id']}")).json
    assert run["status"] == "succeeded"
    assert run["answer"].startswith("It works.")
    for part in ("exit_code): 0", "```text\n5 passed\n```", "stderr: (empty)", "Sandbox: docker"):
        assert part in run["answer"], part
    assert page.text == run["answer"]
    seen = run["steps"][0]["observation"]
    assert (seen["stdout"], seen["exit_code"], seen["backend"]) == ("5 passed\n", 0, "docker")
    assert "sha256:" in seen["image"]
    assert "network=none" in seen["limits"]
    detail = (await api.get(f"/admin/agent-traces/{run['trace_id']}")).json
    assert detail["verification"]["ok"], detail["verification"]
    again = await api.ask(block(SEARCH), **RUN)
    assert again["steps"][0]["observation"]["stdout"] == "5 passed\n"


@pytest.mark.parametrize("route", ["/agent", "/chat"])
async def test_the_run_button(api: Api, route: str) -> None:
    """One fenced block with this tool alone is decided by the planner, whatever model is set, and quotes the record."""
    answer = await api.ask(block(STREAMS), route, **RUN)
    assert (answer["status"], answer["meta"]["model_kind"]) == ("succeeded", "extractive")
    step = answer["steps"][0]
    assert step["tool_args"]["code"] == STREAMS
    assert step["observation"]["stdout"] == "出 A`` \n"
    assert step["observation"]["exit_code"] == 3
    for part in ("退出码（exit_code）：3", "出 A`` \n", "```text\nerr\n```", "沙箱：docker"):
        assert part in answer["answer"], part
    assert answer["answer"].count("出 A``") == 1


@pytest.mark.parametrize(
    "message", ["执行：print(6 * 7)", "run: print(6 * 7)", "请看\n```python\nprint(6 * 7)\n```", "RUN :\nprint(6 * 7)"]
)
async def test_chat_with_code_is_run(without_model: Live, message: str) -> None:
    """A fenced block or a marked line goes to the agent, and without a model the planner runs it."""
    async with calling(without_model) as api:
        answer = await api.ask(message, "/chat")
    assert answer["meta"]["agent_name"] == "dev"
    assert answer["meta"]["route_reason"]
    assert answer["steps"][0]["observation"]["stdout"] == "42\n"
    assert "```text\n42\n```" in answer["answer"]


async def test_a_bare_word_runs_nothing(without_model: Live) -> None:
    """运行 and 执行 are policy language: without a colon and code nothing is run."""
    async with calling(without_model) as api:
        for message in ("劳动合同如何执行", "运行 print(1)"):
            answer = await api.ask(message, "/chat")
            assert not any(step["tool_name"] == "execute_code" for step in answer["steps"]), message


@pytest.mark.parametrize("message", ["escape", "native", block(BLOCKED)])
async def test_blocked_on_every_path(api: Api, live: Live, message: str) -> None:
    """By the text protocol, a native call, and the Run button: an error of the step with line and rule, no output."""
    more = RUN if message.startswith("```") else {}
    answer = await api.ask(message, **more)
    step = answer["steps"][0]
    assert answer["status"] == "succeeded"
    assert (step["error"]["code"], step["error"]["status"]) == ("sandbox_code_blocked", 400)
    told = json.dumps(step, ensure_ascii=False)
    assert "line 1, column 9" in told
    assert "dynamic-code" in told
    assert "exit_code" not in answer["answer"]
    if more:
        assert "line 1, column 9" in answer["answer"]
    if programs(live).exists():
        assert await until_left(programs(live), 0) == []


async def test_warnings_are_shown(api: Api) -> None:
    """What was noticed and let through stands in the result and in the answer."""
    answer = await api.ask(
        block("try: print(len(open('/etc/hostname').read()) > 0)\nexcept OSError: print('no')"), **RUN
    )
    (warning,) = answer["steps"][0]["observation"]["warnings"]
    assert warning in answer["answer"]


async def test_a_cancelled_run_leaves_nothing(api: Api, live: Live) -> None:
    """C10: the program is killed at once and its container is gone, long before the program's time is over."""
    task = asyncio.create_task(api.ask(block(FOREVER), **RUN))
    (name,) = await _until_one(live)
    trace_id = (await api.get("/admin/agent-traces?status=running")).json["traces"][0]["trace_id"]
    await api.post(f"/runs/{trace_id}/cancel")
    assert await until_left(programs(live), 0, SANDBOX_S / 2) == [], name
    assert (await task)["status"] == "cancelled"


async def _until_one(live: Live) -> list[str]:
    for _ in range(200):
        if (programs(live) / "id").exists() and len(names := await until_left(programs(live), 1, 0.2)) == 1:
            return names
        await asyncio.sleep(0.05)
    pytest.fail("no program was started")


async def test_without_a_sandbox_the_run_fails(tmp_path: Path) -> None:
    """503 with a code of its own, and a way out for people; no model is asked what to make of it."""
    with serving(tmp_path, sandbox_backend="docker", sandbox_image="devassist-sandbox:never-made") as live:
        async with calling(live) as api:
            answer = await api.ask(block("print(1)"), **RUN)
            page = await api.watch(block("print(2)"), **RUN)
            described = (await api.get("/tools")).json["tools"]
    assert (answer["status"], answer["answer"]) == ("failed", None)
    assert (answer["error"]["code"], answer["error"]["status"]) == ("sandbox_unavailable", 503)
    assert "devassist doctor" in answer["error"]["detail"]
    assert answer["usage"]["model_calls"] == 1
    assert page.end is not None
    assert page.end["type"] == "error"
    assert "execute_code" in [tool["name"] for tool in described]

"""A server in a process of its own whose tool says very much, and whose model asks for very much."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from devassist.bootstrap import open_services
from devassist.cli.serve import serve
from devassist.config import load
from devassist.core.tooling import ToolSpec
from devassist.runtime.services import Services
from devassist.tools.registry import Tool
from tests.crash.world import append

RESULT_BYTES = 50_000_000
ROUNDS, EACH = 20, 100
"""A run of two thousand calls."""
SIZE = {
    "type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"], "additionalProperties": False,
}  # fmt: skip
AGENT = {
    "name": "many", "description": {"zh": "测试。", "en": "A test."}, "prompt": {"zh": "测试。", "en": "A test."},
    "tools": ["much"], "protocol": "tools", "parallel": True, "context_tokens": 10**7,
    "limits": {"steps": 100, "tokens": 10**9},
}  # fmt: skip


def _rules() -> list[dict[str, Any]]:
    def asked(number: int, size: int) -> dict[str, Any]:
        return {"id": f"c{number}", "name": "much", "arguments": {"size": size + number}}

    rounds = [{"calls": [asked(number, EACH * turn) for number in range(EACH)]} for turn in range(ROUNDS)]
    return [
        {"match": "^big", "replies": [{"calls": [asked(0, RESULT_BYTES)]}, "Big."]},
        {"match": "^many", "replies": [*rounds, "Many."]},
    ]


def _settings(place: Path) -> dict[str, str]:
    (place / "agents").mkdir()
    (place / "agents" / "many.yaml").write_text(json.dumps(AGENT))
    (place / "script.json").write_text(json.dumps({"rules": _rules()}))
    model = f"scripted:{place / 'script.json'}"
    return {
        "data_dir": str(place / "data"), "agents_dir": str(place / "agents"), "agent_model": model, "port": "0",
        "sandbox_pool_size": "0",
    }  # fmt: skip


def run(argument: str) -> None:
    """Serve until a signal comes; the file ``address`` has "up at" and the address."""
    place = Path(argument)
    settings = load(_settings(place), {})

    async def much(size: int) -> str:
        return "x" * size

    async def opener() -> Services:
        tool = Tool(ToolSpec("much", "Says much.", SIZE, None, "pure", timeout_s=60), much)
        return await open_services(settings, drive=True, extra_tools=[tool])

    serve(settings, opener, lambda text: append(place / "address", text))

"""A service with knowledge and keys: an administrator's, Ann's, who may see what is labelled hr, and Bob's, who may
not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

from tests.api.kit import Api, Live, Reply, serving

LEAVE = """# 员工请假办法

（2025年12月1日云泽公司公布，自2026年1月1日起施行）

第一条 为了规范请假，制定本办法。

第二条 年休假每年十天。

第三条 病假须附证明。
"""
AMENDED = LEAVE.replace("2025年12月", "2026年5月").replace("2026年1月", "2026年6月").replace("十天", "十五天")
FILE = "规章/请假办法.md"


@contextmanager
def library(data: Path, rules: Any = (), **flags: str) -> Iterator[Live]:
    with serving(data, rules, **flags) as live:
        yield live


def keys_of(live: Live) -> dict[str, str]:
    return {"root": live.key("root", "admin"), "ann": live.key("ann", sees=("hr",)), "bob": live.key("bob")}


async def put(api: Api, name: str, text: str | bytes, **params: str) -> Reply:
    data = BytesIO(text if isinstance(text, bytes) else text.encode())
    return await api.send("POST", "/knowledge/documents", params={"name": name, **params}, data=data)


async def taken(api: Api, name: str, text: str | bytes, **params: str) -> dict[str, Any]:
    """What came of a file that has to be taken in."""
    reply = await put(api, name, text, **params)
    assert reply.status in (200, 201), reply.text
    return reply.json

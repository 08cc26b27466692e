"""Journeys 3 and 4 with the real command: a folder of documents is read and asked, and then the rule changes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests.api.kit import Api
from tests.cli.kit import run
from tests.e2e.test_first_five_minutes import up

RULE = """# 云桥公司差旅费管理办法

（2025年12月1日印发，自2026年1月1日起施行）

第一条 为规范差旅费管理，制定本办法。

第二条 住宿费标准为每人每天{amount}元，凭票报销。

第三条 差旅费应当在出差结束后三十日内报销。
"""
QUESTION = "出差的住宿费标准是每天多少元？"


def command(data: Path, *args: str) -> str:
    done = run("--data-dir", str(data), *args)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


async def ask(api: Api, **more: str) -> dict[str, object]:
    return await api.ask(QUESTION, "/chat", collection_name="docs", **more)


async def test_read_the_docs_for_me(tmp_path: Path) -> None:
    """A folder comes in beside the running server, what cannot be read is listed with its reason, and a citation leads
    to the very words in the very revision."""
    folder, data = tmp_path / "folder", tmp_path / "data"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "travel.md").write_text(RULE.format(amount=400), "utf-8")
    (folder / "retry.md").write_text("# Retries\n\n## Back-off\n\nA job is tried 5 times.\n", "utf-8")
    (folder / "scan.pdf").write_bytes(b"%PDF-1.4 broken")
    (folder / "blank.md").write_text("  \n", "utf-8")
    async with up(data) as (_, api):
        told = await asyncio.to_thread(command, data, "kb", "ingest", str(folder), "--json")
        outcomes = {line["name"]: line["outcome"] for line in map(json.loads, told.splitlines()) if "outcome" in line}
        assert outcomes == {
            "blank.md": "quarantined", "deep/travel.md": "added", "retry.md": "added", "scan.pdf": "quarantined",
        }  # fmt: skip
        listed = (await api.get("/knowledge/quarantine")).json
        assert {row["name"]: bool(row["detail"]) for row in listed["files"]} == {"blank.md": True, "scan.pdf": True}
        answer = await ask(api)
        assert (answer["status"], answer["meta"]["route"]) == ("succeeded", "rag")
        cited = (await api.get(f"/runs/{answer['trace_id']}/citations")).json["citations"][0]
        assert cited["verdict"] == "verified"
        clause = (await api.get("/knowledge/clauses/" + cited["clause_id"].replace("#", "%23"))).json
        span = cited["span"]
        assert clause["text"][span["start"] : span["end"]] == cited["quote"]
        assert "400元" in cited["quote"]


async def test_the_law_changed(tmp_path: Path) -> None:
    """After an amendment one question is answered as of both days, the diff shows the clause, and the answers that
    rest on the old one are listed."""
    data = tmp_path / "data"
    async with up(data) as (_, api):
        for amount, effective in ((400, "2026-01-01"), (550, "2026-07-01")):
            if amount == 550:
                before = await ask(api, as_of="2026-06-30")
            path = tmp_path / "travel.md"
            path.write_text(RULE.format(amount=amount), "utf-8")
            await asyncio.to_thread(command, data, "kb", "ingest", str(path), "--effective", effective)
        old, new = await ask(api, as_of="2026-06-30"), await ask(api, as_of="2026-07-01")
        assert "400元" in str(old["answer"])
        assert "550元" in str(new["answer"])
        assert "550" not in str(old["answer"])
        doc = old["output"]["citations"][0]["doc_id"]
        diff = await asyncio.to_thread(command, data, "kb", "diff", f"{doc}@2026-01-01", f"{doc}@2026-07-01")
        assert "400元" in diff
        assert "550元" in diff
        told = await asyncio.to_thread(
            command, data, "kb", "affected", "--rev", f"{doc}@2026-01-01", "--cited", "--json"
        )
        found = {json.loads(line)["trace_id"] for line in told.splitlines()}
        assert found == {before["trace_id"], old["trace_id"]}
        cited = (await api.get(f"/runs/{before['trace_id']}/citations")).json["citations"][0]
        assert cited["changed"]["state"] == "amended"

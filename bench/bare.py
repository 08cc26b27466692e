"""The limit that DevAssist is measured against: aiohttp, and a group-commit SQLite journal of one row per step.

No framework, no sealing, no projection, no resume: what any durable agent loop in Python has to pay at least.
"""

from __future__ import annotations

import asyncio
import json
import queue
import sqlite3
import threading
from pathlib import Path
from typing import Any

import aiohttp

from bench.work import SYSTEM, question, tool_result

GROUP = 200


class Journal:
    """Rows are awaited until their batch is committed with ``synchronous=FULL``."""

    def __init__(self, path: Path) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._db.executescript(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
            "CREATE TABLE step(run TEXT, seq INT, kind TEXT, body TEXT, PRIMARY KEY(run, seq)) WITHOUT ROWID"
        )
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def put(self, row: tuple[str, int, str, str]) -> asyncio.Future[None]:
        future: asyncio.Future[None] = self._loop.create_future()
        self._queue.put((row, future))
        return future

    def _write(self) -> None:
        stop = False
        while not stop:
            batch = [self._queue.get()]
            while len(batch) < GROUP:
                try:
                    batch.append(self._queue.get_nowait())
                except queue.Empty:
                    break
            stop = None in batch
            rows = [item for item in batch if item is not None]
            if rows:
                self._db.execute("BEGIN IMMEDIATE")
                self._db.executemany("INSERT INTO step VALUES (?, ?, ?, ?)", [row for row, _ in rows])
                self._db.execute("COMMIT")
                self._loop.call_soon_threadsafe(_done, [future for _, future in rows])

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()
        self._db.close()


def _done(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)


class Bare:
    async def open(self, directory: Path, url: str) -> None:
        self._journal, self._url = Journal(directory / "journal.db"), url + "/chat/completions"
        self._http = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))

    async def run(self, number: int) -> str:
        run_id, seq = f"r{number}", 0
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question(number)}]
        await self._journal.put((run_id, 0, "start", messages[1]["content"]))
        while True:
            async with self._http.post(self._url, json={"model": "stub", "messages": messages}) as response:
                text = (await response.json())["choices"][0]["message"]["content"]
            seq += 1
            await self._journal.put((run_id, seq, "model", text))
            if "Action: final:" in text:
                await self._journal.put((run_id, seq + 1, "end", text))
                return text
            args = json.loads(text.rsplit("args:", 1)[1])
            result = json.dumps(tool_result(args["case"], args["step"]), ensure_ascii=False)
            seq += 1
            await self._journal.put((run_id, seq, "tool", result))
            messages += [
                {"role": "assistant", "content": text},
                {"role": "user", "content": "Observation: " + result},
            ]

    async def settle(self) -> None:
        """Nothing follows this journal."""

    async def close(self) -> None:
        await self._http.close()
        self._journal.close()

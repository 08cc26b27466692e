"""What tests of the store share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.store.log_bench import Bench


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """Its logs are closed at the end."""
    bench = Bench(tmp_path / "log.db")
    yield bench
    for log in bench.logs:
        await log.close()

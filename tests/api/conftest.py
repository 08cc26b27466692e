"""A client of the module's service: every module here makes its own ``live``."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.api.kit import Api, Live, calling


@pytest.fixture
async def api(live: Live) -> AsyncIterator[Api]:
    async with calling(live) as made:
        yield made


@pytest.fixture
async def bob(live: Live) -> AsyncIterator[Api]:
    """Another user."""
    async with calling(live, "bob") as made:
        yield made

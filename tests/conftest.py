"""What holds for every test: a clean environment, and Hypothesis as CI or a developer wants it."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

BARE_NAMES = frozenset({"OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL", "OPENAI_EMBEDDING_MODEL"})
PREFIXES = ("DEVASSIST_", "SANDBOX_")
IN_CI = os.environ.get("CI") == "true"


def _settings_of_ours() -> list[str]:
    return [name for name in os.environ if name.startswith(PREFIXES) or name in BARE_NAMES]


# Before anything is imported or any server of a wider fixture is started.
for _name in _settings_of_ours():
    del os.environ[_name]

settings.register_profile("dev", deadline=None, max_examples=50)
settings.register_profile(
    "ci",
    deadline=None,
    max_examples=150,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],  # a busy machine is no fault of the test
)
settings.load_profile("ci" if IN_CI else "dev")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the machine, nor one that an earlier test left behind, reaches a test."""
    for name in _settings_of_ours():
        monkeypatch.delenv(name)
    monkeypatch.setenv("DEVASSIST_EMBEDDER", "none")  # no test makes vectors but those that are about them


@pytest.fixture(scope="session")
def in_ci() -> bool:
    """Whether this is CI, where nothing may be skipped for lack of a tool."""
    return IN_CI

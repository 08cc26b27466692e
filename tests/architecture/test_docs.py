"""What the project says of itself agrees with what it is."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from devassist.config import describe

ROOT = Path(__file__).parents[2]
READMES = ("README.md", "README.zh-CN.md")
# Put together here, so that this file does not hold what it looks for.
REGISTRY_HOSTS = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("registry", "npmjs", "org"),
        ("deb", "debian", "org"),
        ("security", "debian", "org"),
    )
)


def project_files() -> list[Path]:
    """The files that are tracked or would be; without Git, all but what tools make."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    if listed.returncode == 0:
        found = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        made = {"node_modules", "__pycache__", "dist", "build", "data", "data.keys"}
        found = [
            path
            for path in ROOT.rglob("*")
            if not any(part in made or part.startswith(".") for part in path.relative_to(ROOT).parts[:-1])
        ]
    return [path for path in found if path.is_file()]


def test_decisions_are_numbered_without_a_gap() -> None:
    """Each number is given once, from 0001 on."""
    numbers = [int(path.name[:4]) for path in sorted((ROOT / "docs" / "adr").glob("*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "adr").glob("*.md")), ids=lambda path: path.stem)
def test_a_decision_has_its_parts(path: Path) -> None:
    """Number and title agree with the file's name, and status, context, decision and consequences stand in order."""
    text = path.read_text("utf-8")
    assert text.startswith(f"# {path.name[:4]}. ")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Status", "Context", "Decision", "Consequences"]


@pytest.mark.parametrize("name", READMES)
def test_readme_leads_with_the_two_commands(name: str) -> None:
    """Whoever reads only the first screen knows how to start it and how to test it."""
    head = "\n".join((ROOT / name).read_text("utf-8").splitlines()[:60])
    assert "make run" in head
    assert "make test" in head


@pytest.mark.parametrize("name", READMES)
def test_every_setting_is_in_the_readme(name: str) -> None:
    """A name that config.py reads is explained to the user."""
    text = (ROOT / name).read_text("utf-8")
    assert [setting for setting, _, _ in describe() if not re.search(rf"\b{setting}\b", text)] == []


def test_changelog_names_a_version() -> None:
    """Changes stand under a version, or under what is still unreleased."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.search(r"^## \[(Unreleased|\d+\.\d+\.\d+)\]", text, re.MULTILINE)


def test_no_file_names_a_registry() -> None:
    """Where packages come from is the user's setting, never the project's."""
    found = []
    for path in project_files():
        text = path.read_bytes().decode("utf-8", errors="replace")
        found += [f"{path.relative_to(ROOT)}: {host}" for host in REGISTRY_HOSTS if host in text]
    assert found == []


@pytest.mark.parametrize("name", ["run", "test", "lock"])
def test_lock_files_pin_by_hash_and_name_no_address(name: str) -> None:
    """Every requirement has one version and at least one hash, and there is no option line."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")
    pins = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert pins
    assert all(re.match(r"[a-z0-9-]+==\S+", pin) and "--hash=sha256:" in pin for pin in pins)
    assert "://" not in text
    assert not re.search(r"^-", text, re.MULTILINE)


def test_runtime_and_test_requirements_agree() -> None:
    """A package that stands in both files has one version."""
    pins = [
        dict(re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / "requirements" / name).read_text("utf-8"), re.MULTILINE))
        for name in ("run.txt", "test.txt")
    ]
    run, test = pins
    assert {name: test[name] for name in run.keys() & test.keys()} == {
        name: run[name] for name in run.keys() & test.keys()
    }

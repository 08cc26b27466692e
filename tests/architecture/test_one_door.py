"""There is one door to the sandbox, and the scan stands in it: a second caller fails here (E08).

Programs are run by whoever makes a ``Program`` and hands it over; containers are made by whoever speaks to an engine.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
DOOR = "devassist/tools/execute_code.py"
ROOM = "devassist/sandbox/"
SUITE = "devassist/testing/sandbox_suite.py"  # what adapters of others are tested with; the product does not import it
PORT = "devassist/ports/sandbox.py"
WIRING = "devassist/bootstrap.py"
ENGINE_WORDS = ("docker.sock", "/containers/", "/containers/create")


def read() -> dict[str, str]:
    return {path.relative_to(SRC).as_posix(): path.read_text("utf-8") for path in SRC.rglob("*.py")}


def breaches(sources: Mapping[str, str]) -> Iterator[str]:
    """Every way by which a module other than the door could run a program."""
    for path, source in sources.items():
        if path.startswith(ROOM) or path in (DOOR, SUITE, PORT):
            continue
        for node in ast.walk(ast.parse(source)):
            match node:
                case ast.ImportFrom(module="devassist.ports.sandbox", names=names) if any(
                    a.name in ("Program", "*") for a in names
                ):
                    yield f"{path}:{node.lineno}: takes Program, by which programs are run"
                case ast.Import(names=names) if any(a.name.startswith("devassist.ports.sandbox") for a in names):
                    yield f"{path}:{node.lineno}: takes the whole port"
                case ast.ImportFrom(module="devassist.ports", names=names) if any(a.name == "sandbox" for a in names):
                    yield f"{path}:{node.lineno}: takes the whole port"
                case ast.ImportFrom(module=str(module)) if path != WIRING and module.startswith("devassist.sandbox"):
                    yield f"{path}:{node.lineno}: reaches into the sandbox's room"
                case ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name), attr="execute") if (
                    "sandbox" in name
                ):
                    yield f"{path}:{node.lineno}: runs a program"
                case ast.Constant(value=str(text)) if any(word in text for word in ENGINE_WORDS):
                    yield f"{path}:{node.lineno}: speaks to an engine"
                case _:
                    pass


def test_nobody_passes_by_the_door() -> None:
    """Neither to the sandbox nor to an engine."""
    assert list(breaches(read())) == []


@pytest.mark.parametrize(
    "source",
    [
        "from devassist.ports.sandbox import Program",
        "from devassist.ports.sandbox import Execution, Program as P",
        "from devassist.ports import sandbox",
        "import devassist.ports.sandbox",
        "from devassist.sandbox.docker import DockerSandbox",
        "async def f(services, p): await services.sandbox.execute(s, p)",
        "async def f(sandbox, p):\n    run = sandbox.execute\n    await run(s, p)",
        "URL = '/v1.47/containers/create'",
        "open_unix_connection('/var/run/docker.sock')",
    ],
)
def test_a_second_door_is_noticed(source: str) -> None:
    """Each way of making one is a breach."""
    assert list(breaches({"devassist/api/routes_run.py": source}))


def test_the_scan_stands_in_the_door() -> None:
    """There the program is handed over once, and what was blocked has been refused before."""
    tree = ast.parse((SRC / DOOR).read_text("utf-8"))
    (handler,) = [n for n in ast.walk(tree) if isinstance(n, ast.AsyncFunctionDef)]
    handed = [n.lineno for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr == "execute"]
    scanned = [n.lineno for n in ast.walk(handler) if isinstance(n, ast.Call) and ast.unparse(n.func) == "scan"]
    refused = [
        n.lineno for n in ast.walk(handler) if isinstance(n, ast.Raise) and "sandbox_code_blocked" in ast.unparse(n)
    ]
    assert (len(handed), len(scanned), len(refused)) == (1, 1, 1)
    assert scanned[0] < refused[0] < handed[0]
    statements = [ast.unparse(statement) for statement in handler.body]
    assert statements[0].startswith("found = scan(code)"), "nothing decides whether to scan"


@pytest.mark.parametrize("field", ["parameters", "settings"])
def test_nothing_turns_the_scan_off(field: str) -> None:
    """No argument of the tool and no setting names it."""
    source = read()
    if field == "settings":
        assert "scan" not in source["devassist/config.py"].lower()
    else:
        (handler,) = [n for n in ast.walk(ast.parse(source[DOOR])) if isinstance(n, ast.AsyncFunctionDef)]
        assert {a.arg for a in handler.args.args} == {"code", "scope", "timeout_s"}

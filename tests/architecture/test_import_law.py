"""The import law: which room of the package may know which other one. The table is the law; the rest enforces it.

``violations`` takes sources by path, so that the law is tested itself: each rule is shown a breach of it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
MAX_LINES = 400


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A room is a package under devassist/, or a module directly in it; "root" is devassist/__init__.py.
ADAPTERS = words("store llm vectors tools sandbox knowledge memory prompts audit observability testing")
FRONTS = frozenset({"api", "worker", "cli"})
ENTRY_MODULES = frozenset({"devassist.api.asgi", "devassist.worker.main", "devassist.cli.main"})
STARTS = {"devassist.cli.serve": "devassist.api.app"}  # `devassist serve`: the one front that starts another
LAW: dict[str, frozenset[str]] = {
    "core": frozenset(),
    "ports": frozenset({"core"}),
    "runtime": frozenset({"core", "ports"}),
    **dict.fromkeys(ADAPTERS, frozenset({"core", "ports"})),
    "config": frozenset({"core"}),
    **dict.fromkeys(FRONTS, frozenset({"core", "ports", "runtime", "config"})),
    "bootstrap": frozenset({"core", "ports", "runtime", "config"}) | ADAPTERS,
    "root": frozenset({"core", "ports", "runtime"}),
    "__main__": frozenset({"cli"}),
}

# The core is a function of its arguments: no clock, chance, log, file, network, process or waiting.
CORE_BANNED_MODULES = words(
    "asyncio concurrent glob http.client http.server io logging multiprocessing os pathlib random secrets selectors "
    "shutil signal socket sqlite3 ssl subprocess tempfile threading time urllib.request uuid"
)
CORE_BANNED_CALLS = frozenset({"open", "print", "input", "breakpoint", "exec", "eval"})
CLOCK_METHODS = frozenset({"now", "utcnow", "today"})

WEB_TYPES = frozenset({"fastapi", "starlette", "pydantic"})
WEB_TYPES_ALLOWED = ("devassist/api/", "devassist/tools/schema.py", "devassist/config.py")
ENVIRONMENT_READER = "devassist/config.py"


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name: ``module`` is dotted and absolute, ``name`` what is taken from it (None for the module)."""

    module: str
    name: str | None
    line: int
    in_function: bool


def read_package() -> dict[str, str]:
    """Every Python source of the package, by its path below ``src``."""
    return {path.relative_to(SRC).as_posix(): path.read_text("utf-8") for path in sorted(SRC.rglob("*.py"))}


def module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "root"


def imports_of(path: str, tree: ast.Module) -> Iterator[Import]:
    """All imports of a module, also those under ``TYPE_CHECKING`` and inside functions, made absolute."""
    package = module_name(path).split(".")
    if not path.endswith("/__init__.py"):
        package = package[:-1]

    def walk(node: ast.AST, in_function: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, None, node.lineno, in_function)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield Import(module, alias.name, node.lineno, in_function)
        inside = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from walk(child, inside)

    yield from walk(tree, False)


def target_of(found: Import, modules: frozenset[str]) -> str:
    """The module that an import reaches: ``from devassist.core import events`` reaches ``devassist.core.events``."""
    dotted = f"{found.module}.{found.name}"
    is_module = dotted in modules or (found.module == "devassist" and found.name in LAW)
    return dotted if is_module else found.module


def violations(sources: Mapping[str, str]) -> list[str]:
    """Every breach of the law in these sources, as ``path:line: what``."""
    modules = frozenset(module_name(path) for path in sources)
    graph: dict[str, set[str]] = {}
    found: list[str] = []
    for path, source in sources.items():
        tree = ast.parse(source, path)
        imports = list(imports_of(path, tree))
        found += [f"{path}:{line}: {what}" for line, what in _breaches(path, source, tree, imports, modules)]
        graph[module_name(path)] = {
            target_of(one, modules) for one in imports if one.module.split(".")[0] == "devassist"
        } - {module_name(path)}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found.append(f"import cycle: {' -> '.join(error.args[1])}")
    return found


def _breaches(
    path: str, source: str, tree: ast.Module, imports: list[Import], modules: frozenset[str]
) -> Iterator[tuple[int, str]]:
    lines = source.count("\n")
    if lines > MAX_LINES:
        yield lines, f"{lines} lines, and {MAX_LINES} is the most: split it by meaning"
    if path.endswith("/__init__.py") and path != "devassist/__init__.py":
        for node in tree.body:
            if not _is_docstring(node) and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
                yield node.lineno, "an __init__.py holds a docstring and nothing else"
    for one in imports:
        yield from ((one.line, what) for what in _import_breaches(path, one, modules))
    core = room_of(module_name(path)) == "core"
    for node in ast.walk(tree):
        yield from ((node.lineno, what) for what in _use_breaches(path, node, core))  # type: ignore[attr-defined]


def _import_breaches(path: str, one: Import, modules: frozenset[str]) -> Iterator[str]:
    module, room = module_name(path), room_of(module_name(path))
    top = one.module.split(".")[0]
    if top == "devassist":
        target = target_of(one, modules)
        other = room_of(target)
        allowed = LAW.get(room)
        if allowed is None:
            yield f"room {room!r} is not in the law: add it to the table in {Path(__file__).name} and to AGENTS.md"
        elif other == "bootstrap" and room != "bootstrap":
            if module not in ENTRY_MODULES:
                yield f"only {', '.join(sorted(ENTRY_MODULES))} may import bootstrap"
        elif other != room and other not in allowed and STARTS.get(module) != target:
            yield f"{room} may not import {other} ({target})"
        if one.in_function:
            yield f"{target} is imported inside a function"
        return
    if room == "core" and (top not in sys.stdlib_module_names or _banned_in_core(one)):
        yield f"core may not import {one.module}"
    if top in WEB_TYPES and not path.startswith(WEB_TYPES_ALLOWED):
        yield f"{top} belongs to api/, tools/schema.py and config.py"
    if one.module == "os" and one.name in {"environ", "environb", "getenv"} and path != ENVIRONMENT_READER:
        yield "only config.py reads the environment"


def _banned_in_core(one: Import) -> bool:
    parts = [*one.module.split("."), *([one.name] if one.name else [])]
    return any(".".join(parts[:length]) in CORE_BANNED_MODULES for length in range(1, len(parts) + 1))


def _use_breaches(path: str, node: ast.AST, core: bool) -> Iterator[str]:
    if isinstance(node, ast.Attribute):
        owner = node.value
        if (
            isinstance(owner, ast.Name)
            and owner.id == "os"
            and node.attr in {"environ", "environb", "getenv"}
            and path != ENVIRONMENT_READER
        ):
            yield "only config.py reads the environment"
        name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
        if core and node.attr in CLOCK_METHODS and name in {"datetime", "date"}:
            yield f"core may not ask for {name}.{node.attr}: time is data"
    elif isinstance(node, ast.Call):
        function = node.func
        called = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
        if core and isinstance(function, ast.Name) and called in CORE_BANNED_CALLS:
            yield f"core may not call {called}"
        if called in {"import_module", "__import__"} and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and str(first.value).split(".")[0] == "devassist":
                yield f"{first.value} is imported by a call: import it openly"


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def test_the_package_keeps_the_law() -> None:
    """No module knows a room that it should not know."""
    assert not violations(read_package())


def test_no_room_of_the_law_is_unknown_to_it() -> None:
    """Every room that exists is in the table."""
    rooms = {room_of(module_name(path)) for path in read_package()}
    assert rooms <= set(LAW)


BREACHES = {
    "core imports a port": ("core/x.py", "from devassist.ports import journal"),
    "core imports a third party": ("core/x.py", "import orjson"),
    "core imports a clock": ("core/x.py", "import time"),
    "core imports a part of a banned module": ("core/x.py", "from os.path import join"),
    "core fetches": ("core/x.py", "from urllib import request"),
    "core reads the clock": ("core/x.py", "from datetime import datetime\nx = datetime.now()"),
    "core reads the clock by another spelling": ("core/x.py", "import datetime\nx = datetime.date.today()"),
    "core opens a file": ("core/x.py", "x = open('y')"),
    "a port imports the runtime": ("ports/x.py", "import devassist.runtime.driver"),
    "runtime imports an adapter": ("runtime/x.py", "from devassist.store import sqlite"),
    "runtime imports observability": ("runtime/x.py", "from ..observability import metrics"),
    "an adapter imports another": ("memory/x.py", "from devassist.vectors.exact import Exact"),
    "audit imports the store": ("audit/x.py", "from devassist.store.sqlite import Journal"),
    "an adapter imports the runtime": ("llm/x.py", "from devassist.runtime import retry"),
    "api imports an adapter": ("api/x.py", "from devassist.store import sqlite"),
    "cli imports the api": ("cli/x.py", "from devassist.api.app import create_app"),
    "the server's verb imports more of the api": ("cli/serve.py", "from devassist.api import sse"),
    "a plain module imports bootstrap": ("cli/ask.py", "from devassist import bootstrap"),
    "an adapter imports bootstrap": ("store/x.py", "from devassist.bootstrap import build"),
    "bootstrap imports a front": ("bootstrap.py", "from devassist.api import app"),
    "a type-only import is one too": (
        "runtime/x.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from devassist.store import sqlite",
    ),
    "a room without a law": ("extras/x.py", "from devassist.core import events"),
    "an import inside a function": ("runtime/x.py", "def f():\n    from devassist.core import events"),
    "an import inside a method": ("runtime/x.py", "class A:\n    async def f(self):\n        import devassist.core"),
    "an import by a call": ("runtime/x.py", "import importlib\nimportlib.import_module('devassist.store.sqlite')"),
    "the environment": ("runtime/x.py", "import os\nx = os.environ['A']"),
    "the environment by getenv": ("cli/main.py", "from os import getenv"),
    "FastAPI outside api": ("runtime/x.py", "from fastapi import Request"),
    "pydantic in a tool": ("tools/shell.py", "import pydantic"),
    "a re-export": ("core/__init__.py", "from devassist.core.events import Event"),
    "code in an __init__": ("core/__init__.py", "X = 1"),
    "a file that is too long": ("core/x.py", "x = 1\n" * (MAX_LINES + 1)),
}


@pytest.mark.parametrize(("path", "source"), BREACHES.values(), ids=BREACHES.keys())
def test_a_breach_is_found(path: str, source: str) -> None:
    """Each rule is broken once, and says where."""
    found = violations({f"devassist/{path}": source})
    assert len(found) == 1
    assert found[0].startswith(f"devassist/{path}:")


KEPT = {
    "core": ("core/x.py", "import hashlib\nfrom dataclasses import dataclass\nfrom .errors import DevAssistError"),
    "an aware date from data": ("core/x.py", "from datetime import datetime\nx = datetime.fromisoformat('2026-01-01')"),
    "an adapter": ("store/sqlite.py", "import apsw\nfrom devassist.ports.journal import Journal"),
    "an entry module": ("cli/main.py", "from devassist import bootstrap"),
    "the verb that starts the server": ("cli/serve.py", "from devassist.api.app import create_app"),
    "bootstrap": ("bootstrap.py", "from devassist.store.sqlite import Journal\nfrom devassist.config import Settings"),
    "config": ("config.py", "import os\nimport pydantic\nx = os.environ"),
    "the root's re-export": ("__init__.py", "from devassist.core.events import Event"),
    "an __init__": ("core/__init__.py", '"""The core."""\n\nfrom __future__ import annotations\n'),
    "a function-level import of others": ("cli/x.py", "def f():\n    import json"),
}


@pytest.mark.parametrize(("path", "source"), KEPT.values(), ids=KEPT.keys())
def test_what_the_law_allows_passes(path: str, source: str) -> None:
    """The law forbids nothing that the layout needs."""
    assert violations({f"devassist/{path}": source}) == []


def test_a_cycle_is_found() -> None:
    """Modules of one room may not import one another in a ring, not even through a package import."""
    sources = {
        "devassist/core/__init__.py": "",
        "devassist/core/a.py": "from devassist.core import b",
        "devassist/core/b.py": "from .c import x",
        "devassist/core/c.py": "import devassist.core.a",
    }
    (found,) = violations(sources)
    assert found.startswith("import cycle: ")
    assert all(f"devassist.core.{name}" in found for name in "abc")

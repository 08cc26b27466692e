"""A static look at a program before it runs: an early warning of mistakes and clumsy attacks, never the boundary.
Whoever wants to get past it can. The sandbox is the boundary.

Pure. It reads the syntax tree, not the text: strings and comments are no code. Names are followed through imports and
plain assignments (``import os as o``, ``f = os.system``), no further.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence
from pathlib import PurePosixPath

from devassist.ports.sandbox import Finding
from devassist.sandbox.scan_rules import (
    BLOCKED_ATTRIBUTES,
    BLOCKED_CALLS,
    BLOCKED_MODULES,
    DYNAMIC,
    HARMLESS_DUNDERS,
    METHODS,
    NAMED_ACCESS,
    PATHS,
    WARNED_MODULES,
)

WRITABLE = "/tmp"
SYNTAX = "syntax"
_MOST = 50
_OPENERS = frozenset({"open", "io.open", "os.open", "pathlib.Path", "codecs.open"})


def scan(code: str, allowed_paths: Sequence[str] = ()) -> tuple[Finding, ...]:
    """What was noticed, in the order of the text, at most 50. Any finding that is ``blocked`` means: do not run it.

    A program that cannot be parsed gives one finding of rule ``syntax`` that is not blocked: the interpreter says
    better what is wrong with it. ``allowed_paths`` are directories that may be read.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the program's own text, such as invalid escapes
            tree = ast.parse(code)
            found = _Scan(allowed_paths).look(tree)
    except SyntaxError as error:
        return (Finding(error.lineno or 1, error.offset or 1, SYNTAX, error.msg or "not Python", blocked=False),)
    except (ValueError, RecursionError, MemoryError):
        return (Finding(1, 1, SYNTAX, "it cannot be read: null bytes, or nested too deeply", blocked=True),)
    return tuple(sorted(set(found), key=lambda f: (f.line, f.column, f.rule, f.what))[:_MOST])


class _Scan:
    def __init__(self, allowed_paths: Sequence[str]) -> None:
        self._allowed = tuple(PurePosixPath(p) for p in (WRITABLE, *allowed_paths))
        self._names: dict[str, str] = {}
        self.found: list[Finding] = []

    def look(self, tree: ast.AST) -> list[Finding]:
        nodes = list(ast.walk(tree))
        for node in nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._imports(node)
        for node in nodes:
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
                self._alias(node)
        for node in nodes:
            match node:
                case ast.Attribute():
                    self._attribute(node)
                case ast.Name():
                    self._name(node)
                case ast.Call():
                    self._call(node)
                case _:
                    pass
        return self.found

    def _add(self, node: ast.expr | ast.stmt, rule: str, what: str, *, blocked: bool = True) -> None:
        self.found.append(Finding(node.lineno, node.col_offset + 1, rule, what, blocked))

    # -- names -------------------------------------------------------------------------------------------------------

    def _imports(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                self._names[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
                self._module(node, alias.name)
            return
        module = node.module or ""
        self._module(node, module)
        for alias in node.names:
            whole = f"{module}.{alias.name}"
            self._names[alias.asname or alias.name] = whole
            self._module(node, whole, only_exact=True)
            rule = BLOCKED_CALLS.get(whole) or BLOCKED_ATTRIBUTES.get(whole)
            if rule is not None:
                self._add(node, rule, whole)
            if alias.name == "*" and any(name.startswith(f"{module}.") for name in BLOCKED_CALLS):
                self._add(node, DYNAMIC, f"from {module} import *")

    def _module(self, node: ast.stmt, name: str, *, only_exact: bool = False) -> None:
        """A module's rule is that of the longest part of its name that has one."""
        parts = name.split(".")
        prefixes = [name] if only_exact else [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
        for prefix in prefixes:
            if prefix in BLOCKED_MODULES:
                self._add(node, BLOCKED_MODULES[prefix], f"import {name}")
                return
            if prefix in WARNED_MODULES:
                self._add(node, WARNED_MODULES[prefix], f"import {name}", blocked=False)
                return

    def _alias(self, node: ast.Assign | ast.AnnAssign | ast.NamedExpr) -> None:
        """``f = os.system`` makes ``f`` another name of it."""
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        whole = None if node.value is None else self._dotted(node.value)
        if whole is None:
            return
        for target in targets:
            if isinstance(target, ast.Name) and target.id != whole:
                self._names[target.id] = whole

    def _dotted(self, node: ast.expr, depth: int = 0) -> str | None:
        """The full name that an expression of names and attributes stands for."""
        match node:
            case ast.Name(id=name):
                return self._names.get(name, name)
            case ast.Attribute(value=value, attr=attr) if depth < 20:
                whole = self._dotted(value, depth + 1)
                return None if whole is None else f"{whole}.{attr}"
            case _:
                return None

    # -- uses --------------------------------------------------------------------------------------------------------

    def _attribute(self, node: ast.Attribute) -> None:
        if _dunder(node.attr):
            self._add(node, DYNAMIC, node.attr)
        whole = self._dotted(node)
        rule = None if whole is None else BLOCKED_ATTRIBUTES.get(whole) or BLOCKED_CALLS.get(whole)
        if rule is not None and whole is not None:
            self._add(node, rule, whole)
        elif whole is not None and whole in BLOCKED_MODULES:
            self._add(node, BLOCKED_MODULES[whole], whole)

    def _name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            return
        whole = self._names.get(node.id, node.id)
        rule = BLOCKED_CALLS.get(whole)
        if rule is not None:
            self._add(node, rule, whole)
        elif _dunder(node.id):
            self._add(node, DYNAMIC, node.id)

    def _call(self, node: ast.Call) -> None:
        whole = self._dotted(node.func)
        if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            self._add(node, METHODS[node.func.attr], f".{node.func.attr}()")
        if whole in NAMED_ACCESS:
            self._named_access(node, whole)
        if whole in _OPENERS:
            self._opens(node, whole)

    def _named_access(self, node: ast.Call, function: str) -> None:
        if function == "vars":
            if node.args:
                self._add(node, DYNAMIC, "vars(…)")
            return
        name = node.args[1] if len(node.args) > 1 else None
        if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
            self._add(node, DYNAMIC, f"{function}(…) with a name made at run time")
        elif _dunder(name.value):
            self._add(node, DYNAMIC, f"{function}(…, {name.value!r})")

    def _opens(self, node: ast.Call, function: str) -> None:
        """A path that stands in the program, outside what may be read: reading it is warned of, writing it is not to
        be."""
        first = node.args[0] if node.args else None
        if not isinstance(first, ast.Constant) or not isinstance(first.value, str):
            return
        path = PurePosixPath(first.value)
        outside = ".." in path.parts or (path.is_absolute() and not any(path.is_relative_to(a) for a in self._allowed))
        if outside:
            self._add(node, PATHS, f"{function}({first.value[:80]!r})", blocked=_writes(node, function))


def _writes(node: ast.Call, function: str) -> bool:
    if function == "pathlib.Path":
        return False
    mode = node.args[1] if len(node.args) > 1 else next((k.value for k in node.keywords if k.arg == "mode"), None)
    if mode is None:
        return False
    return not isinstance(mode, ast.Constant) or any(c in str(mode.value) for c in "wax+")


def _dunder(name: str) -> bool:
    return len(name) > 4 and name.startswith("__") and name.endswith("__") and name not in HARMLESS_DUNDERS

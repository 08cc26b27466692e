"""A program that looks round in its sandbox: run at every start, so that an engine which does not do as it was told, or
cannot see our files, is found before a user's program is."""

from __future__ import annotations

import json
from typing import cast

from devassist.ports.sandbox import Execution
from devassist.sandbox.policy import USER, Policy

PROGRAM = """
import json, os

def flags(name):
    with open(f"/sys/class/net/{name}/flags") as file:
        return int(file.read(), 16)

def writable(path):
    try:
        with open(path + "/probe", "w"):
            return True
    except OSError:
        return False

def first(*paths):
    for path in paths:
        try:
            with open("/sys/fs/cgroup/" + path) as file:
                return file.read().strip()
        except OSError:
            pass

with open("/proc/self/status") as file:
    status = dict(row.split(":", 1) for row in file)
places = "/sys/class/net"
print(json.dumps({
    "user": os.getuid(),
    "group": os.getgid(),
    "capabilities": status.get("CapBnd", "").strip(),
    "no new privileges": status.get("NoNewPrivs", "").strip(),
    "filter": status.get("Seccomp", "").strip(),
    "memory": first("memory.max", "memory/memory.limit_in_bytes"),
    "processes": first("pids.max", "pids/pids.max"),
    "networks": sorted(name for name in os.listdir(places) if name != "lo" and flags(name) & 1),
    "writable": [path for path in ("/", "/code", "/var/tmp", "/dev/shm") if writable(path)],
}))
"""
_PAGE = 4096


def fault(execution: Execution, policy: Policy) -> str:
    """What is wrong with the sandbox that this came from; empty when nothing is."""
    try:
        answer: object = json.loads(execution.stdout)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        said = " ".join((execution.stderr or execution.stdout).split())[-300:]
        return f"it cannot run a program (exit {execution.exit_code}: {said})"
    found = cast("dict[str, object]", answer)
    wrong = [f"{name} is {found.get(name)!r}" for name, value in expected(policy).items() if found.get(name) != value]
    return "the engine does not do as it was told: " + ", ".join(wrong) if wrong else ""


def expected(policy: Policy) -> dict[str, object]:
    """What the program must find. A runtime with a kernel of its own answers for that one, which says nothing."""
    everywhere: dict[str, object] = {"user": USER, "group": USER, "writable": []}
    if policy.runtime:
        return everywhere
    return {
        **everywhere,
        "capabilities": "0" * 16,
        "no new privileges": "1",
        "filter": "2",
        "memory": str(policy.memory // _PAGE * _PAGE),
        "processes": str(policy.pids),
        "networks": [],
    }

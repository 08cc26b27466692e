"""The sandbox's benchmark: what it counts as met, and that it finds what a time-out leaves alive."""

from __future__ import annotations

import os
import subprocess
import sys

from bench.sandbox import alive, report_crowd, report_latency, report_throughput, report_timeouts


def verdicts(lines: list[str]) -> dict[str, str]:
    return {line.split()[1]: line.split()[-1] for line in lines if line.startswith("FIGURE")}


def test_latency_is_held_against_its_bars() -> None:
    """A tenth of `docker run`, six tenths of docker-py; without the SDK only the first is told."""
    whole = {"warm": [9.0, 10.0, 11.0], "cold": [60.0], "docker run": [101.0], "docker-py": [99.0]}
    assert verdicts(report_latency(whole, whole)) == {
        "sandbox_warm_p50_to_docker_run": "ok", "sandbox_cold_p50_to_docker_py": "short",
    }  # fmt: skip
    del whole["docker-py"]
    assert list(verdicts(report_latency(whole, whole))) == ["sandbox_warm_p50_to_docker_run"]


def test_slower_than_the_thin_client_is_short() -> None:
    """The ratio is taken pass by pass."""
    rates = {"devassist": [5.0, 2.0, 4.0], "thin client": [5.5, 1.8, 4.4]}
    rates["thin client, no network made"] = rates["thin client"]
    assert verdicts(report_throughput(rates)) == {"sandbox_throughput_thin_to_ours": "short"}
    rates["thin client"] = [5.0, 2.0, 4.0]
    assert verdicts(report_throughput(rates)) == {"sandbox_throughput_thin_to_ours": "ok"}


def test_anything_lost_or_left_is_short() -> None:
    """One of 500 is one too many."""
    found = dict.fromkeys(("lost", "containers", "directories", "descriptors", "leaks"), 0.0) | {"per_s": 5.0}
    assert set(verdicts(report_crowd(found)).values()) == {"ok"}
    assert verdicts(report_crowd(found | {"lost": 1}))["sandbox_crowd_lost"] == "short"
    assert verdicts(report_timeouts([("devassist", 3.1, 1, 0), ("x", 3.1, 5, 0)])) == {
        "sandbox_alive_after_timeout": "short"
    }


def test_what_lives_is_found_by_its_mark() -> None:
    """By a whole argument: not whoever merely speaks of it."""
    mark = f"bench-alive-{os.getpid()}"
    child = subprocess.Popen([sys.executable, "-c", "input()", mark], stdin=subprocess.PIPE)
    other = subprocess.Popen([sys.executable, "-c", f"input()  # {mark}"], stdin=subprocess.PIPE)
    try:
        assert alive(mark) == 1
    finally:
        for process in (child, other):
            process.communicate(b"\n", timeout=30)
    assert alive(mark) == 0

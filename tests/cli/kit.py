"""What the command line's tests share: the command in this process and in others, servers, scripts."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from devassist.bootstrap import file_backups, open_services, sandbox_tools
from devassist.cli.context import App
from devassist.cli.main import cli

COMMAND = [sys.executable, "-m", "devassist.cli.main"]
POLICY = "退休人员门诊慢特病的报销比例是多少？"
WAIT_S = 60


def invoke(*args: str, opener: Any = open_services, stdin: str | None = None) -> Result:
    """The command within this process; an exception that is not an exit is raised."""
    result = CliRunner().invoke(cli, list(args), obj=App(opener, file_backups, sandbox_tools), input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def lines(text: str) -> list[dict[str, Any]]:
    """The values of JSON lines; raises on anything else."""
    return [json.loads(line) for line in text.splitlines()]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    return subprocess.run(
        [*COMMAND, *args], capture_output=True, encoding="utf-8", timeout=WAIT_S, env=os.environ | env, check=False
    )


def start(*args: str, **env: str) -> subprocess.Popen[str]:
    """As ``run``, without waiting."""
    return subprocess.Popen(
        [*COMMAND, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", env=os.environ | env
    )


@dataclass
class Serving:
    process: subprocess.Popen[str]
    url: str

    def stop(self, sig: int = signal.SIGTERM) -> int:
        """Send the signal and return the exit code."""
        self.process.send_signal(sig)
        self.process.communicate(timeout=WAIT_S)
        return self.process.returncode


@contextmanager
def serving(data_dir: Path, port: int = 0, **env: str) -> Iterator[Serving]:
    """A server of its own on ``data_dir``; it is up."""
    # Whoever tests the sandbox asks for one; no other test has use for one that is kept ready.
    process = start("--data-dir", str(data_dir), "serve", "--port", str(port), **{"SANDBOX_POOL_SIZE": "0"} | env)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("DevAssist is up at "), (line, process.communicate(timeout=WAIT_S))
        yield Serving(process, line.split()[4])
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=WAIT_S)


def script(path: Path, *rules: dict[str, Any]) -> dict[str, str]:
    """Settings under which a model answers by these rules."""
    path.write_text(json.dumps({"rules": list(rules)}), "utf-8")
    return {"DEVASSIST_AGENT_MODEL": f"scripted:{path}", "DEVASSIST_CHAT_MODEL": f"scripted:{path}"}

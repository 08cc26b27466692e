"""The static scan: what it sees, what it leaves alone, and that nothing makes it fail."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devassist.sandbox.scan import scan

BLOCKED = {
    "import subprocess": "process",
    "from subprocess import run": "process",
    "import os\nos.system('ls')": "process",
    "import os as o\no.popen('ls')": "process",
    "from os import fork as f": "process",
    "import os\nrun = os.system\nrun('ls')": "process",
    "from os import *": "dynamic-code",
    "import multiprocessing.pool": "process",
    "import socket": "network",
    "import requests\nrequests.get('http://192.0.2.1')": "network",
    "from urllib.request import urlopen": "network",
    "import asyncio\nasyncio.open_connection('192.0.2.1', 80)": "network",
    "import os\nos.remove('x')": "destructive-files",
    "import shutil\nshutil.rmtree('/')": "destructive-files",
    "from pathlib import Path\nPath('x').unlink()": "destructive-files",
    "open('/etc/passwd', 'w')": "paths",
    "open('../x', mode='a')": "paths",
    "eval('1')": "dynamic-code",
    "e = eval\ne('1')": "dynamic-code",
    "[exec][0]('1')": "dynamic-code",
    "__import__('os')": "dynamic-code",
    "import importlib": "dynamic-code",
    "().__class__.__mro__": "dynamic-code",
    "getattr((), '__cla' + 'ss__')": "dynamic-code",
    "getattr((), '__class__')": "dynamic-code",
    "import sys\nsys.modules['os']": "dynamic-code",
    "from sys import modules": "dynamic-code",
    "print(__builtins__)": "dynamic-code",
    "import ctypes": "native-code",
}
HARMLESS = (
    "import os\nprint(os.path.join('a', 'b'), os.getcwd())",
    "# eval(1)\ns = \"import os; os.system('x')\"\nprint(s)",
    "row = {'import': 'os', '__class__': 1}\nprint(row['__class__'])",
    "class A:\n    def __init__(self):\n        self.x = 1\n\n    def __len__(self):\n        return 1\n\nlen(A())",
    "import math, json, re, random, dataclasses, collections, itertools, functools, datetime, statistics",
    "import numpy as np\nimport pandas as pd\nprint(np.arange(3))",
    "import pytest\n\ndef test_it():\n    assert True",
    "with open('/tmp/m.txt', 'w') as f:\n    f.write('x')",
    "open('m.txt', 'w')",
    "getattr(object(), 'name', None)",
    "if __name__ == '__main__':\n    print(1)",
    "a: list[int] = []\na.append(1)\na.remove(1)",
)


@pytest.mark.parametrize(("code", "rule"), BLOCKED.items(), ids=BLOCKED)
def test_what_is_blocked(code: str, rule: str) -> None:
    """The finding names its rule, and the line that it stands in."""
    found = [f for f in scan(code) if f.blocked]
    assert rule in {f.rule for f in found}
    lines = code.splitlines()
    assert all(1 <= f.line <= len(lines) and 1 <= f.column <= len(lines[f.line - 1]) for f in found)


@pytest.mark.parametrize("code", HARMLESS, ids=lambda code: code[:30])
def test_what_is_left_alone(code: str) -> None:
    """Ordinary programs, and text that only looks like code, give no finding at all."""
    assert scan(code) == ()


def test_what_is_warned_of() -> None:
    """Reading outside and importing a client does nothing by itself: it is said, and runs."""
    found = scan("import requests\nprint(open('/etc/hostname').read())")
    assert [(f.rule, f.blocked) for f in found] == [("network", False), ("paths", False)]


def test_paths_that_may_be_read() -> None:
    """A directory that is allowed gives no warning, and a neighbour of like name does."""
    assert scan("open('/srv/data/a.csv')", ["/srv/data"]) == ()
    assert scan("open('/srv/database')", ["/srv/data"])[0].rule == "paths"


def test_a_program_with_a_syntax_error_is_left_to_the_interpreter() -> None:
    """Its own message tells more."""
    (finding,) = scan("def f(:\n  pass")
    assert (finding.rule, finding.line, finding.blocked) == ("syntax", 1, False)


@pytest.mark.parametrize("code", ["(" * 5000 + ")" * 5000, "x\0y", "-" * 100_000 + "1"])
def test_what_cannot_be_read_is_blocked(code: str) -> None:
    """A program that the parser cannot take is refused, never passed unseen."""
    found = scan(code)
    assert found
    assert found[0].rule == "syntax"


@given(st.text(max_size=200))
def test_it_is_total(text: str) -> None:
    """Any text gives a bounded list of findings."""
    assert len(scan(text)) <= 50

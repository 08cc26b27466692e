"""Makes the sandbox's image on the local Docker engine, unless it is there: for CI, and for work on the sandbox.

    sudo .venv/bin/python scripts/sandbox_image.py [--again]

Needs root and debootstrap, and no container registry.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from devassist.core.errors import SandboxUnavailable
from devassist.sandbox.docker import SOCKET
from devassist.sandbox.engine import Engine
from devassist.sandbox.image import CACHE, build


async def main() -> int:
    parser = argparse.ArgumentParser(description="Make the sandbox's image.")
    parser.add_argument("--again", action="store_true", help="also when it is there")
    again: bool = parser.parse_args().again
    engine = Engine(SOCKET)
    try:
        await engine.open()
        print(await build(engine, CACHE, lambda line: print(line, file=sys.stderr), again=again))
    except SandboxUnavailable as error:
        print(error.detail, file=sys.stderr)
        return 1
    finally:
        await engine.close()
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

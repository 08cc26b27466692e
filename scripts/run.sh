#!/usr/bin/env bash
# Starts the service in the foreground; `run.sh --port 8001` and the like are handed on to `devassist serve`.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/venv.sh run
echo "The command is $PWD/.venv/bin/devassist; Ctrl-C stops the service."
# exec: signals reach the server itself.
exec .venv/bin/devassist serve "$@"

#!/usr/bin/env bash
# Writes requirements/*.txt from their .in files: pinned, hashed, for every platform, without any address.
# Pins stay as they are unless an .in file forces a change; UPGRADE=1 takes the newest releases.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/venv.sh lock
for name in run test lock embedded embedded-nodeps chroma; do
  deps=()
  [ "$name" = embedded-nodeps ] && deps=(--no-deps)
  .venv/bin/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 "${deps[@]}" \
    --custom-compile-command 'make lock' --no-config ${UPGRADE:+--upgrade} \
    "requirements/$name.in" -o "requirements/$name.txt"
done
if grep -nE '://|^--' requirements/*.txt; then
  echo "An address or an option stands in a lock file; it must not." >&2
  exit 1
fi

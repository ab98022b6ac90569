#!/usr/bin/env bash
# Make or refresh the virtual environment from the locks: setup.sh VENV
# Needs Python 3.11 or newer with its venv module, nothing else.
set -euo pipefail

venv=$1
python=${PYTHON:-python3}

missing() {
  printf 'frazil setup: %s\n' "$1" "$2" >&2
  exit 1
}

command -v "$python" >/dev/null ||
  missing "'$python' was not found." \
    "Install Python 3.11 or newer (Debian, Ubuntu: apt-get install python3 python3-venv), or name one: make setup PYTHON=/path/to/python3"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  missing "'$python' is $("$python" -V 2>&1); Python 3.11 or newer is needed." \
    "Install a newer one and name it: make setup PYTHON=/path/to/python3.11"
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
  missing "$("$python" -V 2>&1) lacks its venv module." \
    "Install it (Debian, Ubuntu: apt-get install python3-venv), then run the same command again."

if ! [ -x "$venv/bin/python" ] || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
  echo "frazil setup: creating $venv; the first time downloads about 1 GB and takes a few minutes" >&2
  rm -rf "$venv"
  "$python" -m venv "$venv"
fi

pip() {
  "$venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-input "$@"
}

# Build tools first, from their own lock: packages that come as source are then built with locked
# tools as well, and nothing outside the hashes is ever fetched.
pip --require-hashes --no-deps -r locks/build.txt ||
  missing "the package index did not answer, or sent a file with another hash (the messages are above)." \
    "Check the network and pip's own configuration (python3 -m pip config list), then run the same command again."
pip --require-hashes --no-deps --no-build-isolation -r locks/dev.txt ||
  missing "not every locked package could be installed (the messages are above)." \
    "Check the network, free disk space and pip's own configuration, then run the same command again."
pip --no-deps --no-build-isolation --editable .
"$venv/bin/python" -m pip --disable-pip-version-check check >&2

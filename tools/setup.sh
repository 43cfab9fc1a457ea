#!/bin/bash
# Create the console's environment. Says what to install when the machine lacks something.
set -euo pipefail
PYTHON=${PYTHON:-python3}
VENV=${VENV:-.venv}

fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

command -v "$PYTHON" >/dev/null || fail "no $PYTHON here; install Python 3.11 or later, or set PYTHON=/path/to/python"
"$PYTHON" -c 'import sys; raise SystemExit(sys.version_info < (3, 11))' \
    || fail "$("$PYTHON" --version) is too old; pdctl needs Python 3.11 or later (set PYTHON=/path/to/python)"
"$PYTHON" -c 'import ensurepip, venv' 2>/dev/null \
    || fail "Python's venv module is incomplete; on Debian or Ubuntu install the package python3-venv"

# Whoever is interrupted leaves the mark behind, and the next run starts afresh: half an environment
# (no pip yet, a package half unpacked) looks whole and is not.
mark=$VENV/.unfinished
exec 3>&2  # pip's own output goes to a log, and ours must not follow it there
trap 'printf "setup: interrupted; the next run starts afresh\n" >&3; exit 130' INT TERM HUP
if [ -e "$mark" ] || ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
    printf 'setup: creating %s\n' "$VENV" >&2
    rm -rf "$VENV"
    mkdir -p "$VENV"
    touch "$mark"
    "$PYTHON" -m venv "$VENV" || fail "$PYTHON could not create $VENV"
fi
touch "$mark"
rm -f "$VENV/.complete"
started=$SECONDS
printf 'setup: installing the console (about a minute the first time)\n' >&2
log=$VENV/setup.log
if ! { "$VENV/bin/python" -m pip install --upgrade 'pip>=25.1' \
    && "$VENV/bin/python" -m pip install --constraint constraints.txt --group dev --editable . ; } >"$log" 2>&1
then
    tail -n 15 "$log" >&2
    fail "pip could not install the console; the whole log is in $log"
fi
touch "$VENV/.complete"
rm -f "$mark"
printf 'setup: done in %d s\n' "$((SECONDS - started))" >&2

#!/bin/bash
# Every test, and what failed once more by itself: the machine is shared, and a test that passes alone
# tells of the load it met. It is named then, for a test that needs a quiet machine is a defect too.
set -uo pipefail
PYTHON=${PYTHON:-.venv/bin/python}
failed=.pytest_cache/v/cache/lastfailed
most=8  # more than that is no accident; tests that share a fleet fall together

rm -f "$failed"
"$PYTHON" -m pytest "$@"
rc=$?
[ "$rc" -eq 1 ] && [ -s "$failed" ] || exit "$rc"
names=$("$PYTHON" -c 'import json, sys; print("\n".join(json.load(open(sys.argv[1]))))' "$failed") || exit 1
[ "$(wc -l <<<"$names")" -le "$most" ] || exit 1
printf '\ntest: once more, by themselves:\n%s\n\n' "$names"
"$PYTHON" -m pytest --last-failed --last-failed-no-failures none "$@" || exit 1
printf '\ntest: passed the second time only (repair what they depend on):\n%s\n' "$names"

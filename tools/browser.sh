#!/bin/bash
# Chromium for the browser tests. Without it those tests say that they were skipped (and fail in CI).
set -uo pipefail
for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null && exit 0
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    printf 'setup: installing chromium for the browser tests\n' >&2
    log=$(mktemp)
    if { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium; } >"$log" 2>&1
    then
        rm -f "$log"
        exit 0
    fi
    tail -n 5 "$log" >&2
fi
printf 'setup: no Chromium here; browser tests will be skipped. Install it to run them.\n' >&2

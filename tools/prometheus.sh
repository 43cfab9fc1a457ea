#!/bin/bash
# Prometheus and promtool for the tests of /metrics; they start a server of their own. Unpacked into the
# user's cache and not installed: no service is made or started, and no root is needed.
set -uo pipefail
command -v prometheus >/dev/null && command -v promtool >/dev/null && exit 0
cache=${XDG_CACHE_HOME:-$HOME/.cache}/pdctl/prometheus
[ -x "$cache/usr/bin/prometheus" ] && [ -x "$cache/usr/bin/promtool" ] && exit 0
if command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
    printf 'setup: fetching prometheus for the tests of /metrics\n' >&2
    mkdir -p "${cache%/*}"
    work=$(mktemp -d "${cache%/*}/prometheus.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    fetch() { (cd "$work" && apt-get download prometheus) && dpkg-deb -x "$work"/prometheus_*.deb "$work/whole"; }
    # Without lists there is nothing to fetch; only root may bring them up to date.
    if { fetch || { [ "$(id -u)" = 0 ] && apt-get update && fetch; }; } >"$work/log" 2>&1; then
        rm -rf "$cache"
        mv "$work/whole" "$cache" && exit 0
    fi
    tail -n 5 "$work/log" >&2
fi
printf 'setup: no Prometheus here; tests with a real one will be skipped. Install it to run them.\n' >&2

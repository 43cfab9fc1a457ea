#!/bin/bash
# PostgreSQL's programs for the store's tests; they start a server of their own. Without them those
# tests say that they were skipped. No cluster is made on this machine and no service is started.
set -uo pipefail
command -v postgres >/dev/null && exit 0
for bin in /usr/lib/postgresql/*/bin/postgres; do
    [ -x "$bin" ] && exit 0
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    printf 'setup: installing postgresql for the store tests\n' >&2
    log=$(mktemp)
    conf=/etc/postgresql-common/createcluster.conf
    get() { DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; }
    install() {
        apt-get update && get postgresql-common || return 1
        # The server's package makes a cluster and starts it unless this file says otherwise.
        cp -p "$conf" "$conf.pdctl" && printf 'create_main_cluster = false\n' >"$conf" || return 1
        get postgresql
        local ended=$?
        mv "$conf.pdctl" "$conf"
        return "$ended"
    }
    if install >"$log" 2>&1; then
        rm -f "$log"
        exit 0
    fi
    tail -n 5 "$log" >&2
fi
printf 'setup: no PostgreSQL here; its store tests will be skipped. Install it to run them.\n' >&2

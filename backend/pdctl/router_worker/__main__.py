"""Entry: `python -m pdctl.router_worker --home DIR --nonce N --slot I --host H --port P`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import socket
from pathlib import Path

import uvloop

from pdctl import __version__
from pdctl.adapters.clock import SystemClock
from pdctl.adapters.kv_events import ZmqFeed
from pdctl.gateway.plane import LocalDataPlane
from pdctl.router_worker.worker import Worker
from pdctl.seam import parts
from pdctl.shim import procfs, records


def main() -> None:
    """Run one worker to its end."""
    parser = argparse.ArgumentParser(prog="pdctl.router_worker")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--nonce", required=True)
    parser.add_argument("--slot", type=int, required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--listener", type=int, help="descriptor of the front door's socket")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    os.umask(0o077)
    os.chdir(given.home)  # names of sockets are short, however deep the folder lies
    record = f"{given.nonce}.json"
    me = procfs.look(os.getpid())
    records.write(
        ".", record,
        {
            "pid": os.getpid(), "start": me.start if me else 0, "boot": procfs.boot_id(),
            "nonce": given.nonce, "slot": given.slot, "version": __version__,
            "host": given.host, "port": given.port,
        },
    )  # fmt: skip
    try:
        uvloop.run(_serve(given))
    finally:
        Path(record).unlink(missing_ok=True)


async def _serve(given: argparse.Namespace) -> None:
    plane = LocalDataPlane(given.host, given.port, clock=SystemClock(), feed=ZmqFeed())
    address = (given.host, given.port)
    listener = None if given.listener is None else socket.socket(fileno=given.listener)
    where = parts.folder(given.home, given.slot)
    worker = Worker(
        plane, nonce=given.nonce, slot=given.slot, address=address, version=__version__,
        listener=listener, on_beat=lambda: parts.turn(where),
    )  # fmt: skip
    await worker.run()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


if __name__ == "__main__":
    main()

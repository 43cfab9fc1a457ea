"""Checks of ports, of the database and of a running pdctl; and who holds a port."""

from __future__ import annotations

import errno
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from pdctl.adapters.routers.roster import Entry, recorded
from pdctl.cli.checkup import BAD, INFO, OK, WARN, Check
from pdctl.domain.topology import FleetSpec, PortBand
from pdctl.settings import Settings

_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def taken(host: str, port: int) -> str | None:
    """Why `port` cannot be listened on at `host`; None when it can."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return holder(port)
            return f"it cannot be bound: {error.strerror}"
    return None


def holder(port: int) -> str:
    """Who listens on `port`, as far as this user may know."""
    import psutil

    try:
        listening = psutil.net_connections("tcp")
    except (psutil.Error, OSError):
        return "held by a process that this user may not see"
    for one in listening:
        if one.laddr and one.laddr.port == port and one.status == psutil.CONN_LISTEN and one.pid:
            try:
                process = psutil.Process(one.pid)
                command = " ".join(process.cmdline())[:80].strip() or process.name()
            except psutil.Error:
                continue
            return f"held by pid {one.pid} ({command})"
    return "held by a process that this user may not see"


def checks(fleet: FleetSpec | None, settings: Settings, *, serving: bool) -> Iterator[Check]:
    """Ports of this configuration; with a running pdctl its own ports are rightly taken."""
    wanted = [("admin port", settings.admin_host, settings.admin_port, "--admin-port")]
    if fleet is not None:
        wanted.append(("router port", fleet.router.host, fleet.router.port, "router.port"))
    for name, host, port, key in wanted:
        why = taken(host, port)
        if why is None:
            yield Check(name, OK, f"{port} is free")
        elif workers := [one.pid for one in _workers(settings) if one.port == port]:
            pids = ", ".join(map(str, workers))
            adopts = "" if serving else ", which the next pdctl serve adopts"
            yield Check(name, OK, f"{port} is held by our own router workers ({pids}){adopts}")
        elif serving:
            yield Check(name, OK, f"{port} is {why}; pdctl serve answers there")
        else:
            yield Check(name, BAD, f"{port} is {why}", f"Stop that process, or set {key}.")
    if fleet is not None:
        yield _band("http ports", fleet.http_ports, "ports.http", serving=serving)
        yield _band(
            "side-channel ports", fleet.side_channel_ports, "ports.side_channel", serving=serving
        )
        yield _ephemeral((fleet.http_ports, fleet.side_channel_ports))


def _workers(settings: Settings) -> list[Entry]:
    return recorded(settings.state_dir / "run" / "router")


def _band(name: str, band: PortBand, key: str, *, serving: bool) -> Check:
    held = [
        (port, why)
        for port in range(band.first, band.last + 1)
        if (why := taken("127.0.0.1", port)) is not None
    ]
    total = band.last - band.first + 1
    if not held or serving:
        return Check(name, OK, f"{total - len(held)} of {total} in {band} are free")
    first = f"{held[0][0]} is {held[0][1]}"
    level = BAD if len(held) == total else WARN
    return Check(
        name, level, f"{len(held)} of {total} in {band} are taken; {first}",
        f"Instances of an earlier run are adopted; otherwise choose another {key}.",
    )  # fmt: skip


def _ephemeral(bands: tuple[PortBand, ...]) -> Check:
    try:
        first, last = (int(part) for part in _EPHEMERAL.read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return Check("ephemeral ports", INFO, "the system's range cannot be read here")
    system = PortBand(first, last)
    inside = [str(band) for band in bands if band.overlaps(system)]
    if inside:
        return Check(
            "ephemeral ports",
            WARN,
            f"{', '.join(inside)} lies in the system's range {system}",
            "Outgoing connections take ports there at random: choose a band outside it.",
        )
    return Check("ephemeral ports", OK, f"the bands keep out of {system}")


def database(settings: Settings) -> Check:
    """SQLite: is the file whole. Others: is there somebody listening."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(settings.url)
    except ArgumentError:
        return Check("database", BAD, "the database URL cannot be read",
                     "For example postgresql+asyncpg://user@host/name.")  # fmt: skip
    shown = url.render_as_string(hide_password=True)
    if not url.drivername.startswith("sqlite"):
        try:
            socket.create_connection((url.host or "127.0.0.1", url.port or 5432), 5).close()
        except OSError as error:
            return Check("database", BAD, f"{shown}: {error}", "Is the database server running?")
        return Check("database", OK, f"{shown}: somebody listens")
    path = Path(url.database or ":memory:")
    if not path.exists():
        return Check("database", OK, f"{path} will be made at the first start")
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5) as base:
            said = base.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.Error as error:
        said = str(error)
    if said != "ok":
        return Check("database", BAD, f"{path}: {said}", "Move the file away; a new one is made.")
    return Check("database", OK, f"{path} is whole")

"""How values are said to people: units always, unknown as a dash, words beside every colour.

Pure: a value in, a string or a small description out. Templates use these as filters.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from datetime import UTC, datetime

from pdctl.contract.resources import RequestView
from pdctl.domain.handoff import Outcome, Path
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.topology import Mode, Role

DASH = "—"
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


@dataclass(frozen=True, slots=True)
class Badge:
    """A state for the eye: a glyph and a word, so that colour (`tone`) never speaks alone."""

    glyph: str
    word: str
    tone: str
    """ok | busy | warn | bad | idle"""


PHASES: dict[Phase, Badge] = {
    Phase.PENDING: Badge("○", "Pending", "idle"),
    Phase.STARTING: Badge("◔", "Starting", "busy"),
    Phase.LOADING: Badge("◑", "Loading", "busy"),
    Phase.WARMING: Badge("◕", "Warming", "busy"),
    Phase.PROBING: Badge("◎", "Probing", "busy"),
    Phase.READY: Badge("●", "Ready", "ok"),
    Phase.DRAINING: Badge("◒", "Draining", "warn"),
    Phase.STOPPING: Badge("▽", "Stopping", "warn"),
    Phase.STOPPED: Badge("■", "Stopped", "idle"),
    Phase.BACKOFF: Badge("↻", "Backoff", "warn"),
    Phase.FAILED: Badge("✕", "Failed", "bad"),
    Phase.UNKNOWN: Badge("?", "Unknown", "warn"),
}

REASONS: dict[Reason, str] = {
    Reason.DESIRED: "as desired",
    Reason.OPERATOR: "by an operator",
    Reason.SCALE_DOWN: "the pool shrinks",
    Reason.OUTDATED: "its launch flags changed",
    Reason.EXITED: "its process ended",
    Reason.UNHEALTHY: "it does not answer",
    Reason.START_TIMEOUT: "the start took too long",
    Reason.CONFIG_ERROR: "vLLM refused its configuration",
    Reason.PORT_RACE: "its port was taken",
    Reason.SHUTDOWN: "pdctl is shutting down",
    Reason.ADOPTED: "adopted from an earlier pdctl",
    Reason.HELD: "kept out of rotation",
}

OUTCOMES: dict[Outcome, Badge] = {
    Outcome.OK: Badge("●", "OK", "ok"),
    Outcome.CLIENT_GONE: Badge("○", "Client gone", "idle"),
    Outcome.REJECTED: Badge("▲", "Rejected", "warn"),
    Outcome.OVERLOADED: Badge("▲", "Overloaded", "warn"),
    Outcome.NO_INSTANCE: Badge("✕", "No instance", "bad"),
    Outcome.UPSTREAM_ERROR: Badge("✕", "Engine error", "bad"),
    Outcome.TIMEOUT: Badge("✕", "Timeout", "bad"),
    Outcome.TRUNCATED: Badge("✕", "Truncated", "bad"),
}

PATHS: dict[Path, str] = {
    Path.PD: "PD",
    Path.CHUNKED: "Chunked",
    Path.AGGREGATED: "Aggregated",
    Path.NONE: "Not routed",
}
PATH_TITLES: dict[Path, str] = {
    Path.PD: "prefilled on one instance, decoded on another",
    Path.CHUNKED: "whole on one instance, as the mode says",
    Path.AGGREGATED: "whole on one instance although the mode is PD",
    Path.NONE: "never reached an instance",
}
MODES: dict[Mode, str] = {Mode.PD: "PD", Mode.CHUNKED: "Chunked"}
ROLES: dict[Role, str] = {Role.PREFILL: "prefill", Role.DECODE: "decode", Role.BOTH: "both"}
PAIRS: dict[str, Badge] = {
    "ok": Badge("●", "OK", "ok"),
    "paused": Badge("◒", "Paused", "warn"),
    "untried": Badge("○", "Untried", "idle"),
    "probing": Badge("◎", "Probing", "busy"),
    "failing": Badge("✕", "Failing", "bad"),
    "quarantined": Badge("✕", "Quarantined", "bad"),
    "incompatible": Badge("≠", "Incompatible", "warn"),
}
METRICS: dict[str, tuple[str, str]] = {
    "ttft": ("TTFT", "time to first token"),
    "tpot": ("TPOT", "time per output token, per request"),
    "itl": ("ITL", "inter-token latency, per gap"),
    "e2e": ("E2E", "whole request"),
    "queue": ("Queue", "wait in the router's own queue"),
    "prefill": ("Prefill", "computing the prompt"),
    "transfer": ("Transfer", "decode's admission and its pull of the KV"),
}

CHARTS = METRICS | {"rate": ("Throughput", "generations that ended, per second")}
"""What is drawn over time."""

FOUND: dict[str, str] = {
    "higher": "higher", "lower": "lower", "unclear": "not beyond chance", "too_few": "too few",
}  # fmt: skip
"""What a comparison found."""


def tokens(one: RequestView) -> str:
    """Completion tokens; counted from a stream's chunks they are a lower bound."""
    bound = "≥ " if one.completion_derived and one.completion_tokens is not None else ""
    return bound + count(one.completion_tokens)


def tpot(one: RequestView) -> str:
    """Time per output token; an upper bound where the tokens are a lower one."""
    bound = "≤ " if one.completion_derived and one.tpot_ms is not None else ""
    return bound + ms(one.tpot_ms)


def pair_badge(state: str) -> Badge:
    """The badge of a pair's state; a state newer than this face keeps its own word."""
    return PAIRS.get(state) or Badge("○", state.replace("_", " ").capitalize() or DASH, "idle")


def ms(value: float | None) -> str:
    """Milliseconds with three significant digits and a unit that fits."""
    if value is None:
        return DASH
    if value < 1:
        return f"{value:.2f} ms" if value else "0 ms"
    if value < 10:
        return f"{value:.1f} ms"
    if value < 999.5:
        return f"{value:.0f} ms"
    return f"{value / 1000:.2f} s" if value < 9_995 else seconds(value / 1000)


def seconds(value: float | None) -> str:
    """A duration in at most two units; below ten seconds with one decimal when it matters."""
    if value is None:
        return DASH
    if value < 99.95 and value != int(value):
        return f"{value:.1f} s"
    return span(value)


def span(value: float | None) -> str:
    """A coarse duration for ages: "12 s", "3 min 5 s", "2 h 10 min", "3 d 4 h"."""
    if value is None:
        return DASH
    whole = max(0, int(value))
    for size, unit, smaller, small_unit in (
        (86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"),
    ):  # fmt: skip
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit}" + (f" {rest} {small_unit}" if rest else "")
    return f"{whole} s"


def age(at: datetime | None, now: datetime) -> str:
    """How long ago `at` was; never negative (two clocks may differ a little)."""
    return DASH if at is None else span((now - at).total_seconds())


def count(value: float | None) -> str:
    """A whole number with thousands separated."""
    return DASH if value is None else f"{value:,.0f}"


def percent(fraction: float | None) -> str:
    """0..1 as a percentage."""
    if fraction is None:
        return DASH
    return f"{fraction * 100:.1f} %" if 0 < fraction < 0.1 else f"{fraction * 100:.0f} %"


def share(value: float | None) -> str:
    """0..1 as a percentage to a tenth: never "100 %" of what is less."""
    if value is None:
        return DASH
    return "100 %" if value >= 1 else f"{min(value * 100, 99.9):.1f} %"


def signed(value: float | None) -> str:
    """Milliseconds more or less."""
    return DASH if value is None else f"{'-' if value < 0 else '+'}{ms(abs(value))}"


def rate(value: float | None) -> str:
    """Tokens per second."""
    if value is None:
        return DASH
    return f"{value:,.0f} tok/s" if value >= 10 or value == 0 else f"{value:.1f} tok/s"


def size(value: float | None) -> str:
    """Bytes in binary units."""
    if value is None:
        return DASH
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def per_second(value: float | None) -> str:
    """How many in a second."""
    if value is None:
        return DASH
    return f"{value:,.0f}/s" if value >= 100 or value == int(value) else f"{value:.2g}/s"


def took(value: float | None) -> str:
    """How long something took, in seconds; what was too short for a tenth is in milliseconds."""
    return ms(value * 1000) if value is not None and 0 < value < 0.95 else seconds(value)


def group(by: str) -> str:
    """A group of requests by name: "PD" for `mode:pd`, "decode" for `pool:decode`."""
    kind, _, name = by.partition(":")
    return PATHS[Path(name)] if kind == "mode" and name in list(Path) else name or kind


def moment(at: datetime) -> str:
    """Time of day to the second, UTC."""
    return at.astimezone(UTC).strftime("%H:%M:%S")


def iso(at: datetime) -> str:
    """RFC 3339 with milliseconds, UTC: what a tooltip and `datetime=` carry."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clock(at: datetime) -> str:
    """Time of day, UTC, with milliseconds."""
    return at.astimezone(UTC).strftime("%H:%M:%S.") + f"{at.microsecond // 1000:03d}"


def stamp(at: datetime) -> str:
    """Date and time, UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def plain(text: str) -> str:
    """Text without terminal colour codes."""
    return _ANSI.sub("", text)


def shell_lines(argv: list[str]) -> str:
    """A command as it could be typed: quoted, a flag with its values on each line."""
    lines: list[list[str]] = [[]]
    for word in argv:
        if word.startswith("--") and lines[-1]:
            lines.append([])
        lines[-1].append(word)
    return " \\\n  ".join(shlex.join(words) for words in lines)


def level(line: str) -> str:
    """What a log line is: "bad", "warn" or "" (vLLM writes LEVEL in the first words)."""
    head = line[:160]
    if "ERROR" in head or "CRITICAL" in head or "Traceback" in head:
        return "bad"
    return "warn" if "WARNING" in head else ""


FILTERS = {
    "ms": ms, "seconds": seconds, "span": span, "age": age, "count": count, "percent": percent,
    "share": share, "signed": signed,
    "rate": rate, "size": size, "iso": iso, "clock": clock, "stamp": stamp, "plain": plain,
    "level": level, "shell_lines": shell_lines, "shell": shlex.join, "pair_badge": pair_badge,
    "tokens": tokens, "tpot": tpot, "per_second": per_second, "took": took, "group": group,
    "moment": moment,
}  # fmt: skip
NAMES = {
    "PHASES": PHASES, "REASONS": REASONS, "OUTCOMES": OUTCOMES, "PATHS": PATHS,
    "PATH_TITLES": PATH_TITLES, "PATH_WORDS": {path.value: word for path, word in PATHS.items()},
    "MODES": MODES, "ROLES": ROLES, "METRICS": METRICS, "CHARTS": CHARTS,
    "FOUND": FOUND, "DASH": DASH,
    "GROUPS": {f"mode:{path.value}": word for path, word in PATHS.items()},
    "COUNTED": "counted from the stream's chunks, each of which may hold several tokens",
    "NO_USAGE": "the stream carried no usage: ask with stream_options.include_usage",
    "PASSED": "it generates nothing: passed to one instance as it came, and no part of the latency",
    "IN_PROCESS": "in-process (simulated)",
}  # fmt: skip

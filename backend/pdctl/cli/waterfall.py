"""One request as text: what it was, what it cost, and a bar for every stretch of its time.

Law: nothing is cut inside a word. The bar shrinks first, then notes go below the table, then the
column of instances goes (the legs above name them), then the bar itself.
"""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING

from pdctl.cli import figures
from pdctl.cli.terminal import Terminal, clean

if TYPE_CHECKING:
    from pdctl.contract.resources import RequestView, SpanView

OUTCOMES = {
    "ok": "green", "client_gone": "yellow", "rejected": "yellow", "overloaded": "red",
    "no_instance": "red", "upstream_error": "red", "timeout": "red", "truncated": "red",
}  # fmt: skip
SOURCES = {"derived": "yellow", "unknown": "red"}
WIDEST, NARROWEST = 60, 12
"""Characters of a bar; below the narrowest nothing can be told from it."""
GAP = 2

KV = {
    "moved": "moved to decode",
    "cached": "was in decode's own cache, so nothing had to move",
    "recomputed": "did not move: decode computed the prompt again (a silent recompute)",
    "unknown": "the engine's counters do not tell whether it moved",
}


def waterfall(terminal: Terminal, one: RequestView) -> list[str]:
    """The request, fitted to the width of this terminal."""
    columns = shutil.get_terminal_size((100, 24)).columns
    text = [wrapped for line in _words(terminal, one) for wrapped in wrap(line, columns)]
    id_ = terminal.paint(one.id, "bold") + (
        terminal.paint("  SIMULATED", "yellow") if one.simulated else ""
    )
    outcome = terminal.paint(one.outcome, OUTCOMES.get(one.outcome, ""))
    kind = "stream" if one.stream else "whole answer"
    head = f"{one.endpoint}  {kind}  {outcome} {one.status}  {one.received_at.isoformat()}"
    return [id_, head, *text, "", *_bars(terminal, one.spans, columns)]


def tokens_out(terminal: Terminal, one: RequestView) -> str:
    """The tokens of the answer; "≥" where they were counted from the stream."""
    known = one.completion_tokens is not None and one.completion_derived
    return terminal.sign("≥", ">=") * known + figures.count(one.completion_tokens)


def tpot(terminal: Terminal, one: RequestView) -> str:
    """Time per output token; "≤" where there may have been more tokens than were counted."""
    known = one.tpot_ms is not None and one.completion_derived
    return terminal.sign("≤", "<=") * known + figures.ms(one.tpot_ms)


def _words(terminal: Terminal, one: RequestView) -> list[str]:
    why = f" ({one.path_reason})" if one.path_reason else ""
    end = f", finished by {one.finish_reason}" if one.finish_reason else ""
    retries = "1 retry" if one.retries == 1 else f"{one.retries} retries"
    lines = [
        f"path {one.path}{why} in mode {one.mode}, {retries}{end}",
        f"TTFT {figures.ms(one.ttft_ms)}  TPOT {tpot(terminal, one)}  "
        f"total {figures.ms(one.e2e_ms)}  queued {figures.ms(one.queued_ms)}",
        f"tokens: prompt {figures.count(one.prompt_tokens)} "
        f"(cached {figures.count(one.cached_tokens)}, "
        f"handed over {figures.count(one.remote_tokens)}), "
        f"out {tokens_out(terminal, one)}  KV {figures.size(one.kv_bytes)}",
    ]
    if one.completion_derived and one.completion_tokens is not None:
        lines.append(
            "no usage in the stream: tokens are at least those its chunks showed, TPOT is derived"
        )
    lines += [f"missed {slo}, by {cause}" for slo, cause in one.slo_missed.items()]
    lines += [f"its KV: {KV[one.kv]}"] if one.kv in KV else []
    lines += [f"error: {one.error}"] if one.error else []
    for leg in one.legs:
        more = [said for said in (leg.error, leg.note) if said]
        lines.append("; ".join([f"{leg.kind} on {leg.instance}: {leg.why}", *more]))
    return lines


def wrap(line: str, columns: int) -> list[str]:
    """`line` in rows of at most `columns`, broken between words."""
    return textwrap.wrap(
        clean(line), max(columns, 20), subsequent_indent="  ", break_long_words=False,
        break_on_hyphens=False,
    ) or [""]  # fmt: skip


def _bars(terminal: Terminal, spans: list[SpanView], columns: int) -> list[str]:
    total = max((span.end_ms for span in spans), default=0.0)
    if total <= 0:
        return ["No times were recorded."]
    notes, instances = True, True
    width = _room(spans, columns, instances=True) - _widest([one.note for one in spans])
    if width < NARROWEST * 2:
        notes, width = False, _room(spans, columns, instances=True)
    if width < NARROWEST:
        instances, width = False, _room(spans, columns, instances=False)
    width = min(width, WIDEST)
    rows = []
    for span in spans:
        row = [span.name]
        row += [_bar(terminal, span, total, width)] if width >= NARROWEST else []
        row += [figures.ms(span.end_ms - span.start_ms), span.source]
        row += [span.instance] if instances else []
        rows.append([*row, span.note] if notes else row)
    head = ["STRETCH"]
    head += [f"0 to {figures.ms(total)}"] if width >= NARROWEST else []
    head += ["TOOK", "KNOWN BY", *["INSTANCE"] * instances, *[""] * notes]
    lines = terminal.table(head, rows, {head.index("KNOWN BY"): SOURCES})
    below = [] if notes else dict.fromkeys(f"{s.name}: {s.note}" for s in spans if s.note)
    return lines + [row for note in below for row in wrap(note, columns)]


def _room(spans: list[SpanView], columns: int, *, instances: bool) -> int:
    """What is left for the bar beside the columns that are always there."""
    cells = [
        ["STRETCH", *(span.name for span in spans)],
        ["TOOK", *(figures.ms(span.end_ms - span.start_ms) for span in spans)],
        ["KNOWN BY", *(span.source for span in spans)],
    ]
    if instances:
        cells.append(["INSTANCE", *(span.instance for span in spans)])
    return columns - sum(_widest(column) for column in cells) - GAP


def _widest(column: list[str]) -> int:
    """Of a column with the gap beside it; nothing for an empty one."""
    widest = max(map(len, column), default=0)
    return widest + GAP if widest else 0


def _bar(terminal: Terminal, span: SpanView, total: float, width: int) -> str:
    start = min(width - 1, int(span.start_ms / total * width))
    length = max(1, round((span.end_ms - span.start_ms) / total * width))
    return (" " * start + terminal.sign("█", "#") * length)[:width].ljust(width)

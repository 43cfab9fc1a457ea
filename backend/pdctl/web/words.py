"""The closed lists of the product in plain English: steps, stops, verbs, ends, workers, routes.

Pure data. A value that a newer server knows and this face does not keeps its own spelling.
"""

from __future__ import annotations

from collections.abc import Mapping

from pdctl.domain.actions import Rung
from pdctl.domain.events import EventKind
from pdctl.domain.verbs import VERBS as EVERY
from pdctl.web.present import MODES, Badge

KINDS: dict[EventKind, str] = {
    EventKind.FLEET_CHANGED: "Desired fleet",
    EventKind.INSTANCE_CHANGED: "Phase",
    EventKind.PAIR_CHANGED: "Pair",
    EventKind.STOP_RUNG: "Stop ladder",
    EventKind.REQUEST_FINISHED: "Request",
    EventKind.OPERATION: "Operator",
    EventKind.SIGNAL_CHANGED: "Signal",
    EventKind.NOTICE: "Notice",
}
RUNGS: dict[str, Badge] = {
    "out_of_rotation": Badge("◒", "Out of rotation", "warn"),
    "back_in_rotation": Badge("●", "Back in rotation", "ok"),
    Rung.TERM: Badge("▽", "Asked to end", "warn"),
    Rung.KILL: Badge("✕", "Killed", "bad"),
}
"""The stop ladder, and the way back from it."""
VERBS: dict[str, str] = {
    **{one.name: one.label for one in EVERY.values()},
    "operation": "operation ended",
}
SOURCES: dict[str, str] = {
    "tui": "terminal console", "web": "browser", "cli": "command line", "rest": "REST",
}  # fmt: skip
ENDS: dict[str, Badge] = {
    "running": Badge("◔", "Running", "busy"),
    "done": Badge("●", "Done", "ok"),
    "refused": Badge("▲", "Refused", "warn"),
    "failed": Badge("✕", "Failed", "bad"),
    "cancelled": Badge("○", "Cancelled", "idle"),
    "resumed": Badge("◔", "Resumed", "busy"),
}
"""What came of a verb, and how far an operation is."""
PAIR_WHY: dict[str, str] = {
    "ok": "It hands over.",
    "paused": "It worked; one of its ends does not serve now.",
    "untried": "It has not been tried since its ends were started.",
    "probing": "A handoff is being tried.",
    "failing": "Its probe failed: it takes no traffic until one works.",
    "quarantined": "Real requests failed on it: it takes no traffic until a probe works.",
    "incompatible": "Its ends differ in what a handoff needs to agree on.",
}
SIGNALS: dict[str, Badge] = {
    "firing": Badge("▲", "Firing", "bad"),
    "pending": Badge("◔", "Pending", "warn"),
    "resolved": Badge("●", "Resolved", "ok"),
}
SEVERITIES: dict[str, Badge] = {
    "critical": Badge("✕", "Critical", "bad"),
    "warning": Badge("!", "Warning", "warn"),
}
LEVELS: dict[str, Badge] = {
    "info": Badge("○", "Notice", "idle"),
    "warning": Badge("▲", "Warning", "warn"),
    "error": Badge("✕", "Error", "bad"),
}
WORKERS: dict[str, Badge] = {
    "waiting": Badge("◔", "Starting", "busy"),
    "listening": Badge("●", "Serving", "ok"),
    "replace": Badge("↻", "Being replaced", "busy"),
    "draining": Badge("◒", "Draining", "warn"),
    "done": Badge("■", "Ended", "idle"),
    "away": Badge("?", "Out of contact", "warn"),
}
ROUTES: dict[str, str] = {
    "endpoint": "this endpoint has no handoff",
    "n": "it asks for several answers (n)",
    "best_of": "it asks for the best of several (best_of)",
    "beam_search": "it asks for beam search",
    "list_prompt": "it holds several prompts",
    "prompt_embeds": "its prompt is embeddings",
    "prompt_logprobs": "it asks for log probabilities of the prompt",
    "echo_logprobs": "it asks for the prompt back with log probabilities",
    "no_generation": "it generates nothing",
    "background": "it runs in the background",
    "previous_response": "it goes on from an earlier response",
    "server_tools": "the engine runs tools for it",
    "no_decode": "no decode instance was ready",
    "no_prefill": "no prefill instance was ready",
    "no_pair": "no pair was proven",
    "params_missing": "the prefill handed over no KV parameters",
    "short_prompt": "too little to compute for a handoff",
    "prefill_busy": "prefill had too much ahead of it",
    "slo": "the other way would have missed its objective",
}
"""Why a request was served whole although the mode was PD."""


def word(table: Mapping[str, str], key: str) -> str:
    """The word of `key`."""
    return table.get(key) or plain(key)


def badge(table: Mapping[str, Badge], key: str) -> Badge:
    """The badge of `key`."""
    return table.get(key) or Badge("○", plain(key).capitalize() or "Unknown", "idle")


def plain(key: str) -> str:
    """An identifier as words."""
    return key.replace("_", " ").replace(".", " ")


def ticks(text: str) -> list[tuple[str, bool]]:
    """Text in pieces; True for those that stood between backticks."""
    return [(piece, at % 2 == 1) for at, piece in enumerate(text.split("`")) if piece]


FILTERS = {
    "ticks": ticks,
    "verb": lambda key: word(VERBS, key),
    "source": lambda key: word(SOURCES, key),
    "end": lambda key: badge(ENDS, key),
    "worker": lambda key: badge(WORKERS, key),
    "pair_why": lambda key: word(PAIR_WHY, key),
    "mode": lambda key: word({mode.value: said for mode, said in MODES.items()}, key),
    "route": lambda key: word(ROUTES, key),
}
NAV = (
    ("fleet", "Fleet", "/"), ("requests", "Requests", "/requests"), ("pairs", "Pairs", "/pairs"),
    ("latency", "Latency", "/latency"), ("router", "Router", "/router"),
    ("operations", "Operations", "/operations"), ("history", "History", "/history"),
    ("audit", "Audit", "/audit"), ("events", "Events", "/events"),
    ("signals", "Signals", "/signals"), ("logs", "Logs", "/logs"),
    ("reference", "API", "/reference"),
)  # fmt: skip
"""Pages of the top bar: section, word, path."""
NAMES = {
    "NAV": NAV, "KINDS": KINDS, "VERBS": VERBS, "SOURCES": SOURCES, "ENDS": ENDS,
    "SIGNALS": SIGNALS, "SEVERITIES": SEVERITIES,
}  # fmt: skip

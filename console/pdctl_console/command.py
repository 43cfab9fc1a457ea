"""The words behind `:`, where they lead to a screen instead of a verb, and how they go on. Pure.

Verbs are read by `pdctl.contract.command`, in the words of the command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pdctl.contract import command
from pdctl.contract.asks import Ask
from pdctl.contract.router import MEANINGS
from pdctl.domain.errors import OperatorError
from pdctl.domain.live import ADMISSIONS
from pdctl.domain.topology import Mode
from pdctl_console.model import RUNNING, ViewState
from pdctl_console.widgets.status_bar import TABS

SCREENS = tuple(mode for mode, _, _ in TABS)
ON_ONE = {"instance": "one", "logs": "its log", "command": "how it is launched"}
"""What opens something of an instance: `logs decode-1`."""
OTHERS = ("help", "keys", "quit")
_INSTANCE = (*ON_ONE, "drain", "undrain", "restart", "stop", "move", "clear")


@dataclass(frozen=True, slots=True)
class Go:
    """Somewhere to look, and at what there."""

    where: str
    what: str = ""


def read(text: str) -> Ask | Go:
    """What a line means; OperatorError when it means nothing."""
    words = command.split(text)
    name, rest = (words[0], words[1:]) if words else ("", [])
    if name == "q":
        name = "quit"
    if name in ON_ONE and len(rest) == 1:
        return Go(name, rest[0])
    if name in ("requests", "operations") and len(rest) == 1:
        return Go(name, rest[0])
    if not rest and (found := _named(name)):
        return Go(found)
    if not words or name in {form.split()[0] for form in command.FORMS}:
        return command.read(words)
    known = sorted({*SCREENS, *OTHERS, *ON_ONE, *(form.split()[0] for form in command.FORMS)})
    raise OperatorError("bad_command", f"There is no {name!r}.", command.meant(name, known))


def _named(name: str) -> str:
    """A screen by its name or by the only name that begins so; verbs come first."""
    if name in (*SCREENS, *OTHERS):
        return name
    verbs = {form.split()[0] for form in command.FORMS}
    begun = [one for one in SCREENS if len(name) > 1 and one.startswith(name)]
    return begun[0] if len(begun) == 1 and name not in verbs else ""


def completed(text: str, state: ViewState) -> str:
    """`text` with its last word completed as far as it can go on in one way only."""
    begun, found = candidates(text, state)
    if not found:
        return text
    shared = found[0]
    for one in found[1:]:
        while not one.startswith(shared):
            shared = shared[:-1]
    whole = len(found) == 1 and not shared.endswith("=")
    return f"{begun}{shared}{' ' if whole else ''}" if shared else text


def candidates(text: str, state: ViewState) -> tuple[str, list[str]]:
    """What stands before the last word, and everything that the last word may become."""
    begun, _, last = text.rpartition(" ")
    words = begun.split()
    words = words[1:] if words[:1] == ["pdctl"] else words
    found = sorted({one for one in _next(words, last, state) if one.startswith(last)})
    return f"{begun} " if begun else "", found


def _next(words: Sequence[str], last: str, state: ViewState) -> Iterable[str]:
    """Everything that may follow `words`."""
    fleet = state.fleet
    if not words:
        return [*SCREENS, *OTHERS, *ON_ONE, *(form.split()[0] for form in command.FORMS)]
    name = words[0]
    pools = [pool.name for pool in fleet.pools] if fleet else []
    if words[-1] == "--role":
        return pools
    if name in _INSTANCE:
        named = [one.id for one in fleet.instances] if fleet else []
        return ["--role"] if name == "move" and len(words) == 2 else named * (len(words) == 1)
    if name in ("resize", "plan"):
        more = [f"mode={mode.value}" for mode in Mode] if name == "plan" else []
        return [*(f"{pool}=" for pool in pools), *more]
    return _of(name, words, state)


def _of(name: str, words: Sequence[str], state: ViewState) -> Iterable[str]:
    signals = state.signals
    if name == "signals" and len(words) == 1:
        return ["ack", "silence", "unsilence"]
    if words[:2] == ["signals", "ack"]:
        return [one.id for one in signals.items] if signals else []
    if words[:2] == ["signals", "silence"]:
        return [rule.name for rule in signals.rules] if signals and len(words) == 2 else []
    if words[:2] == ["signals", "unsilence"]:
        return [one.id for one in signals.silences] if signals else []
    settings = [*(f"{one}=" for one in MEANINGS), *(f"admission={one}" for one in ADMISSIONS)]
    fixed: dict[str, list[str]] = {
        "mode": [mode.value for mode in Mode],
        "router": settings if len(words) > 1 else ["set"],
        "undo": [str(one.revision) for one in state.revisions] if len(words) > 1 else ["--to"],
        "cancel": [one.id for one in state.operations if one.state == RUNNING],
        "operations": [one.id for one in state.operations],
        "requests": [one.id for one in state.requests],
    }
    return fixed.get(name, [])

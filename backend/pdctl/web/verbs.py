"""What an operator can do here, said before it is done: effect, risks, and the same in a shell.

Pure: views in, the text of a confirmation out. The forms that carry it out are in `forms`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pdctl.contract import asks
from pdctl.contract.asks import Ask
from pdctl.contract.resources import FleetView, InstanceView, ModeView
from pdctl.domain.lifecycle import Phase
from pdctl.domain.topology import Mode
from pdctl.web.overview import servable
from pdctl.web.present import MODES, count


@dataclass(frozen=True, slots=True)
class Entry:
    """What the operator fills in before it is done."""

    name: str
    label: str
    choices: tuple[tuple[str, str], ...] = ()
    """(value, word); none: free text."""


@dataclass(frozen=True, slots=True)
class Confirm:
    """One question to the operator."""

    title: str
    button: str
    effects: tuple[str, ...]
    action: str
    """Path that the form posts to."""
    ask: Ask
    """The same for a shell."""
    fields: dict[str, str] = field(default_factory=dict)
    entries: tuple[Entry, ...] = ()
    risks: tuple[str, ...] = ()
    danger: bool = False


def switch(fleet: FleetView, mode: ModeView, to: Mode) -> Confirm:
    """The question before a mode switch."""
    open_now = sum(mode.inflight.values())
    effects = (
        f"New requests are served {_way(to)} from the moment you confirm.",
        f"{_requests(open_now)} under way finish{'es' if open_now == 1 else ''} as begun; "
        "nothing is dropped.",
        "No instance is restarted, and switching back works the same way.",
    )
    return Confirm(
        title=f"Switch {fleet.name} to {MODES[to]}?",
        button=f"Switch to {MODES[to]}",
        effects=effects,
        risks=_mode_risks(fleet, to),
        action="/mode",
        fields={"to": to.value, "revision": str(fleet.revision)},
        ask=asks.switch(to),
    )


def clear(instance: InstanceView) -> Confirm:
    """The question before an instance that was given up is tried again."""
    ask = asks.clear(instance.id)
    return Confirm(
        title=ask.title,
        button="Clear and start",
        effects=(
            f"Its {instance.failures} counted failures are forgotten and it is started again.",
            "Its first failure stays on its page.",
        ),
        risks=() if instance.phase is Phase.FAILED else ("It is not failed now.",),
        action=f"/instances/{instance.id}/clear",
        ask=ask,
    )


def _way(to: Mode) -> str:
    if to is Mode.PD:
        return "by a prefill and a decode instance, with the KV cache handed over between them"
    return "whole by one instance, with vLLM's chunked prefill"


def _mode_risks(fleet: FleetView, to: Mode) -> tuple[str, ...]:
    risks = []
    if fleet.mode is to:
        risks.append(f"The fleet is in {MODES[to]} mode already; nothing will change.")
    if not servable(fleet, to):
        missing = "no ready prefill and decode pair" if to is Mode.PD else "no ready instance"
        risks.append(f"There is {missing} now: new requests would not be served that way.")
    failing = sum(pair.state == "failing" for pair in fleet.pairs)
    if to is Mode.PD and failing:
        number = len(fleet.pairs)
        words = "1 pair fails its" if number == 1 else f"{number} pairs fail their"
        risks.append(f"{failing} of {words} probe.")
    return tuple(risks)


def _requests(number: int) -> str:
    return "1 request" if number == 1 else f"{count(number)} requests"

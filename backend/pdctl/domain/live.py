"""Settings of the router that are switched while it runs; nothing restarts for them: pure.

The names are those of the fleet file. Which policies exist is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches

from pdctl.domain.errors import OperatorError
from pdctl.domain.topology import FleetSpec, Role, RouterSpec, SloSpec

Value = str | int
ADMISSIONS = ("off", "queue", "refuse")
"""What becomes of a request that would miss its objective."""
Settings = Sequence[tuple[str, Value]]
KV_EVENTS = "kv_events"
"""The policy that needs instances to publish what they hold."""
POLICIES = ("prefill_policy", "decode_policy")
BOUNDS = {
    "pd_min_prompt_tokens": (0, 10_000_000),
    "max_inflight_per_instance": (1, 100_000),
    "queue_limit": (0, 1_000_000),
    "retries": (0, 10),
}
"""The least and the most of each number."""
LIVE = (*POLICIES, *BOUNDS, "slo", "admission")


def switched(router: RouterSpec, wanted: Settings) -> tuple[RouterSpec, list[str]]:
    """The router with `wanted`, and what differs in words; OperatorError for what cannot be."""
    new = replace(router, **{name: read(name, value) for name, value in wanted})  # type: ignore[arg-type]
    return new, differences(router, new)


def differences(old: RouterSpec, new: RouterSpec) -> list[str]:
    """What of it was switched, in words."""
    pairs = ((name, getattr(old, name), getattr(new, name)) for name in LIVE)
    return [
        f"router.{name} {_shown(was)} -> {_shown(now)}" for name, was, now in pairs if was != now
    ]


def unpublished(old: FleetSpec, new: FleetSpec) -> list[str]:
    """Pools whose instances the policy kv_events is to choose, and that publish no events."""
    whole, prefill = (
        getattr(new.router, name) == KV_EVENTS != getattr(old.router, name)
        for name in ("decode_policy", "prefill_policy")
    )
    silent = [
        pool.name
        for pool in new.pools
        if not pool.kv_events and (whole or (prefill and pool.role is not Role.DECODE))
    ]
    if not silent:
        return []
    return [
        f"{', '.join(silent)} publish no KV events: chosen by history there, until a fleet file "
        "with this policy is applied, which relaunches them"
    ]


def _shown(value: Value) -> Value:
    return "none" if value == "" else value


def read(name: str, value: Value) -> Value:
    """A value as the router wants it, also from text; OperatorError says what would do."""
    if name not in LIVE:
        raise OperatorError(
            "no_such_setting", f"The router has no setting {name!r} that is switched live.",
            _meant(name, LIVE, "Settings"),
        )  # fmt: skip
    if name == "slo":
        return "" if value == "none" else str(value)
    if name == "admission" and value not in ADMISSIONS:
        raise OperatorError(
            "bad_setting", f"{value!r} is no value for admission.",
            _meant(str(value), ADMISSIONS, "Values"),
        )  # fmt: skip
    if name in (*POLICIES, "admission"):
        return str(value)
    least, most = BOUNDS[name]
    text = str(value)
    if not (text.isascii() and text.isdecimal() and least <= int(text) <= most):
        raise OperatorError(
            "bad_setting", f"{value!r} is no value for {name}.",
            f"Give a whole number from {least} to {most}.",
        )  # fmt: skip
    return int(text)


def refuse_unknown(router: RouterSpec, known: Iterable[str], slos: Sequence[SloSpec] = ()) -> None:
    """OperatorError when `router` names a policy or an objective that there is not."""
    objectives = [one.name for one in slos]
    if router.slo and router.slo not in objectives:
        raise OperatorError(
            "no_such_slo", f"The fleet has no SLO {router.slo!r}.",
            _meant(router.slo, [*objectives, "none"], "SLOs"),
        )  # fmt: skip
    if router.admission != "off" and not any(one.ttft_ms for one in slos):
        raise OperatorError(
            "no_slo", "Admission needs an SLO that bounds the time to the first token.",
            'Add one to the fleet file: [slo.chat] with ttft = "500ms".',
        )  # fmt: skip
    names = sorted(known)
    for role in POLICIES:
        if (name := getattr(router, role)) not in names:
            raise OperatorError(
                "no_such_policy", f"There is no policy {name!r} for {role}.",
                _meant(name, names, "Policies"),
            )  # fmt: skip


def _meant(word: str, known: Sequence[str], what: str) -> str:
    close = get_close_matches(word, known, n=1)
    listed = f"{what}: {', '.join(known)}."
    return f"Did you mean {close[0]!r}? {listed}" if close else listed

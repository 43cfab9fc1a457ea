"""[signals]: what is watched, and who is told."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pdctl.domain.signals.rules import BOUNDS, RULES, Severity
from pdctl.domain.topology import SignalRuleSpec, SignalsSpec, WebhookSpec
from pdctl.fleetfile import values as v
from pdctl.fleetfile.mistakes import Key, nearest
from pdctl.fleetfile.paths import reference
from pdctl.fleetfile.reader import Field, Findings, section, table
from pdctl.fleetfile.values import Wrong, shown

WEBHOOK = "webhook"
_URL = re.compile(r"https?://[^\s/?#]+\S*")
_DEFAULTS = SignalsSpec()


def fields() -> dict[str, Field]:
    """Keys of [signals] itself; beside them stand its tables, one a rule, and the webhook's."""
    return {
        "enabled": Field(v.boolean, _DEFAULTS.enabled),
        "objective": Field(_objective, _DEFAULTS.objective),
    }


def rule_fields(unit: str) -> dict[str, Field]:
    """Keys of [signals.NAME] for a rule that counts in `unit`."""
    return {
        "enabled": Field(v.boolean, True),
        "threshold": Field(_threshold(unit)),
        "for": Field(v.seconds(0, 86_400)),
        "severity": Field(v.choice(*Severity)),
    }


def webhook_fields() -> dict[str, Field]:
    """Keys of [signals.webhook]."""
    return {
        "url": Field(_url, required=True),
        "timeout": Field(v.seconds(0.1, 60), _DEFAULTS.webhook.timeout_s),
    }


def read(value: Any, found: Findings, path: Path) -> SignalsSpec:
    """What the section says."""
    given = dict(table(found, ("signals",), value))
    own = fields()
    names = [name for name in given if name not in own]
    plain = {name: given[name] for name in own if name in given}
    top = section(found, ("signals",), plain, own)
    webhook = WebhookSpec()
    rules = []
    for name in names:
        key: Key = ("signals", name)
        if name == WEBHOOK:
            webhook = _webhook(given[name], found, path)
        elif (rule := RULES.get(name)) is None:
            _unknown(name, found)
        else:
            said = section(found, key, given[name], rule_fields(rule.unit))
            rules.append(
                SignalRuleSpec(
                    name, enabled=said["enabled"], threshold=said["threshold"],
                    for_s=said["for"], severity=said["severity"],
                )
            )  # fmt: skip
    return SignalsSpec(top["enabled"], top["objective"], tuple(rules), webhook)


def _webhook(value: Any, found: Findings, path: Path) -> WebhookSpec:
    key: Key = ("signals", WEBHOOK)
    given = section(found, key, value, webhook_fields())
    url = given["url"] or ""
    return WebhookSpec(reference(url, path, found, (*key, "url")), given["timeout"])


def _unknown(name: str, found: Findings) -> None:
    known = (*fields(), WEBHOOK, *RULES)
    close = nearest(name, known)
    meant = f"Did you mean `{close}`? " if close else ""
    hint = f"{meant}Known here: {', '.join(known)}."
    found.error(("signals", name), f"There is no signal `{name}`.", hint, named=True)


def _threshold(unit: str) -> v.Reader[float]:
    least, most = BOUNDS[unit]
    seconds = v.seconds(least, most)

    def read_threshold(value: Any) -> float:
        if unit == "s":
            return seconds(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Wrong(f"must be a number, not {shown(value)}.", f"From {least:g} to {most:g}.")
        if not least <= value <= most:
            share = " (0.9 is 90 %)" if unit == "share" else ""
            raise Wrong(f"must be from {least:g} to {most:g}{share}, not {shown(value)}.")
        return float(value)

    return read_threshold


def _objective(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.5 <= value < 1:
        raise Wrong(
            f"must be a share from 0.5 to below 1, not {shown(value)}.", "For example 0.99."
        )
    return float(value)


def _url(value: Any) -> str:
    url = v.text(value)
    if not (url.startswith(("env:", "file:")) or _URL.fullmatch(url)):
        hint = 'Write "https://...", or "env:NAME" or "file:PATH" that holds it.'
        raise Wrong("must be an http(s) address or a reference to one.", hint)
    return url

"""[signals]: rules as the operator wants them, and a webhook that nobody sees."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fleetfile.test_good_files import SMALL, read

from pdctl.domain.diff import words
from pdctl.domain.topology import SignalRuleSpec, SignalsSpec, WebhookSpec
from pdctl.fleetfile import check

FILE = """
[signals]
objective = 0.999
[signals.kv_nearly_full]
threshold = 0.8
for = "1m"
severity = "critical"
[signals.stall]
threshold = "20s"
[signals.orphans]
enabled = false
[signals.webhook]
url = "env:HOOK"
timeout = "2s"
"""


def test_every_key_of_signals_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", "https://hooks.example/T0/secret")
    assert read(SMALL + FILE).signals == SignalsSpec(
        objective=0.999,
        rules=(
            SignalRuleSpec("kv_nearly_full", threshold=0.8, for_s=60.0, severity="critical"),
            SignalRuleSpec("stall", threshold=20.0),
            SignalRuleSpec("orphans", enabled=False),
        ),
        webhook=WebhookSpec("env:HOOK", timeout_s=2.0),
    )
    assert read(SMALL).signals == SignalsSpec()
    assert read(SMALL + "[signals]\nenabled = false\n").signals.enabled is False


def test_a_webhook_may_be_a_file_beside_the_fleet_file(tmp_path: Path) -> None:
    (tmp_path / "hook").write_text("https://hooks.example/", encoding="utf-8")
    text = SMALL + '[signals.webhook]\nurl = "file:hook"\n'
    spec = read(text, str(tmp_path / "fleet.toml"))
    assert spec.signals.webhook.url_secret == f"file:{tmp_path / 'hook'}"


def test_a_reference_that_is_not_there_is_a_warning() -> None:
    spec, mistakes = check(
        SMALL + '[signals.webhook]\nurl = "env:NOT_SET_HERE"\n', Path("fleet.toml")
    )
    assert spec is not None
    assert [one.severity for one in mistakes] == ["warning"]


def test_an_address_is_never_told_in_words() -> None:
    before = read(SMALL)
    after = read(SMALL + '[signals.webhook]\nurl = "https://hooks.example/T0/secret"\n')
    said = " ".join(words(before, after))
    assert said == "signals.webhook.url changed"
    assert "hooks.example" not in said


def test_a_change_is_told_as_the_file_spells_it() -> None:
    before = read(SMALL + "[signals.stall]\nthreshold = 10\n")
    after = read(SMALL + "[signals.stall]\nthreshold = 20\n")
    assert words(before, after) == ["signals.stall.threshold 10.0 -> 20.0"]

"""`pdctl signals`: what is wrong in whole sentences, and the verbs on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.conftest import Live, Run
from tests.fakes.signals import look

from pdctl.cli.signals import seconds
from pdctl.cli.terminal import ExitCode, Stop
from pdctl.client.claim import user_at_host
from pdctl.domain.lifecycle import Phase


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    """A world of its own in which decode-0 was given up, which has been seen."""
    with Live("normal", tmp_path / "world") as live:
        monkeypatch.setenv("PDCTL_URL", live.url)

        def fail() -> None:
            fleet = live.world.state.fleet
            instances = [
                replace(one, phase=Phase.FAILED, message="bad flag")
                if one.id == "decode-0"
                else one
                for one in fleet.instances
            ]
            live.world.state.set_observed(instances, fleet.pairs, (), fleet.seq)
            look(live.world)

        live.do(fail)
        yield live


@pytest.mark.usefixtures("url")
def test_nothing_is_wrong(run: Run) -> None:
    ran = run("signals")
    assert ran.code == 0
    assert "Nothing is wrong" in ran.out
    assert run("signals", "--json").document["items"] == []


@pytest.mark.usefixtures("broken")
def test_a_signal_says_what_it_means_and_what_to_do(run: Run) -> None:
    out = run("signals").out
    assert "FIRING" in out
    assert "given_up:decode-0" in out
    assert "bad flag" in out
    assert "Do: Read why with `pdctl logs decode-0 --previous`" in out
    document = run("signals", "--json").document
    assert (document["schema_version"], document["firing"]) == (1, 1)


@pytest.mark.usefixtures("broken")
def test_it_is_taken_up_and_found_in_the_history(run: Run) -> None:
    ran = run("signals", "ack", "given_up:decode-0", "--note", "on it")
    assert ran.out == f"given_up:decode-0: taken up by {user_at_host()}, claimed.\n"
    out = run("signals").out
    assert f"Taken up by {user_at_host()}" in out
    assert "on it" in out
    assert "Nothing fires" in run("signals", "ack", "--all").err
    head, row = run("signals", "history").out.splitlines()
    assert head.split()[0] == "FIRED"
    assert "given_up:decode-0" in row
    assert run("audit", "--json").document["items"][-1]["verb"] == "ack_signal"
    ran = run("signals", "ack", "stall:decode-9")
    assert ran.code == ExitCode.FAILED
    assert "given_up:decode-0" in ran.err
    assert run("signals", "ack").code == ExitCode.USAGE


@pytest.mark.usefixtures("broken")
def test_a_silence_is_made_shown_and_ended(run: Run) -> None:
    made = run("signals", "silence", "given_up", "--for", "2h", "--json").document
    out = run("signals").out
    assert f"silence {made['id']}: given_up of *, " in out
    assert "Silenced until" in out
    assert run("signals", "--json").document["firing"] == 0
    assert "is heard again" in run("signals", "unsilence", made["id"]).out
    assert run("signals", "--json").document["firing"] == 1
    assert run("signals", "silence", "given_upp").code != 0
    assert run("signals", "silence", "--for", "soon").code == ExitCode.USAGE


@pytest.mark.usefixtures("url")
def test_the_rules_are_a_table(run: Run) -> None:
    out = run("signals", "rules").out
    assert "kv_nearly_full" in out
    assert "95 %" in out
    assert len(run("signals", "rules", "--json").document["rules"]) == len(out.splitlines()) - 1


def test_spans() -> None:
    assert [seconds(text) for text in ("90s", "30m", "2h", "1d")] == [90, 1800, 7200, 86_400]
    for text in ("", "5", "1s", "31d", "2 h", "9" * 40 + "d"):
        with pytest.raises(Stop):
            seconds(text)

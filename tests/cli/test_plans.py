"""Changing verbs: the plan first, a question or --yes, the operation, a code for each end."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tests.cli.conftest import Live, Run

from pdctl.cli import carry
from pdctl.cli.terminal import Stop
from pdctl.client.admin import AdminClient
from pdctl.client.claim import user_at_host
from pdctl.contract.plans import OperationView, PlanView
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.rehearsal import rehearse
from pdctl.domain.topology import Mode


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    """A world of its own, every instance of which is ready, and every pair proved."""
    with Live("normal", tmp_path / "world") as world:
        monkeypatch.setenv("PDCTL_URL", world.url)

        def mend() -> None:
            for one in world.world.state.fleet.instances:
                world.world.change(one.id, Phase.READY, Reason.DESIRED, "")
            fleet = world.world.state.fleet
            tried = [replace(pair, state="ok", generations=(1, 1)) for pair in fleet.pairs]
            world.world.state.set_observed(fleet.instances, tried, (), fleet.seq)

        world.do(mend)
        yield world


def plan_of(run: Run, *words: object) -> PlanView:
    ran = run("plan", *words, "--json")
    return PlanView.model_validate(ran.document)


@pytest.mark.usefixtures("live")
def test_a_plan_is_a_table_with_capacity_risks_and_the_next_step(run: Run) -> None:
    ran = run("plan", "prefill=3", "decode=2")
    assert ran.code == 0
    assert "2p3d -> 3p2d" in ran.out
    assert "change: prefill 2 -> 3" in ran.out
    assert "launch     prefill-2" in ran.out
    assert "drain      decode-2" in ran.out
    assert "capacity: prefill 2 -> 3" in ran.out
    assert "risk: no start of prefill has been seen yet" in ran.out
    assert "Apply it with: pdctl apply plan-" in ran.err


@pytest.mark.usefixtures("live")
def test_a_plan_changes_nothing_and_neither_does_a_dry_run(run: Run, live: Live) -> None:
    before = live.world.state.fleet
    view = plan_of(run, "decode=5", "mode=chunked")
    assert view.steps[0].kind == "route"
    assert (view.mode_before, view.mode_after) == (Mode.PD, Mode.CHUNKED)
    assert run("resize", "decode=5", "--dry-run").code == 0
    assert live.world.state.fleet is before


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("plan",), 2, "Say what to change"),
        (("plan", "decode"), 2, "Write POOL=SIZE"),
        (("plan", "decode=two"), 2, "whole number"),
        (("plan", "mode=chunkd"), 2, "Did you mean 'chunked'"),
        (("plan", "decoed=2"), 2, "Did you mean 'decode'"),
        (("plan", "decode=1", "decode=2"), 2, "given twice"),
        (("resize", "decode=1", "--yes", "--timeout", "soon"), 2, "no time"),
        (("drain", "decode-9", "--yes"), 2, "Did you mean 'decode-"),
        (("move", "decode-0", "--role", "prefil", "--yes"), 2, "Did you mean 'prefill'"),
        (("restart", "decod", "--yes"), 2, "neither instance nor pool"),
        (("apply", "plan-none"), 1, "no plan"),
        (("operations", "op-none"), 1, "no operation"),
        (("cancel", "op-none"), 1, "no operation"),
    ],
)
@pytest.mark.usefixtures("live")
def test_what_is_misspelt_is_named(run: Run, words: tuple[str, ...], code: int, said: str) -> None:
    ran = run(*words)
    assert ran.code == code
    assert said in ran.out + ran.err


def test_without_a_terminal_and_without_yes_nothing_is_changed(run: Run, live: Live) -> None:
    before = live.world.state.fleet
    for words in (("resize", "decode=2"), ("drain", "decode-1"), ("restart", "decode")):
        ran = run(*words)
        assert ran.code == 2
        assert "--yes" in ran.err
    assert live.world.state.fleet is before


class Keyboard(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_on_a_terminal_the_plan_is_shown_and_asked_about(
    run: Run, live: Live, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    monkeypatch.setattr("sys.stdin", Keyboard(answer))
    monkeypatch.setattr("pdctl.cli.carry._may_ask", lambda: True)
    ran = run("resize", "decode=2")
    assert ran.code == code
    assert re.search(r"drain +decode-2", ran.err)
    assert "Apply it? [y/N]" in ran.err
    assert live.world.state.fleet.desired.pools[1].size == (2 if code == 0 else 3)


@pytest.mark.parametrize(("moves", "code"), [(2, 0), (carry.TRIES, 5)])
def test_with_yes_a_plan_that_has_gone_stale_is_made_again_a_few_times(
    run: Run, live: Live, monkeypatch: pytest.MonkeyPatch, moves: int, code: int
) -> None:
    left, applied = iter(range(moves)), carry.applied

    async def late(client: AdminClient, plan: str) -> OperationView:
        if (turn := next(left, None)) is not None:
            phase = Phase.PROBING if turn % 2 else Phase.DRAINING
            live.do(lambda: live.world.change("decode-0", phase, Reason.DESIRED, ""))
        return await applied(client, plan)

    monkeypatch.setattr("pdctl.cli.carry.applied", late)
    ran = run("resize", "decode=4", "--yes")
    assert ran.code == code, ran.err
    assert ran.err.count("Planning again.") == min(moves, carry.TRIES - 1)
    assert live.world.state.fleet.desired.pools[1].size == (4 if code == 0 else 3)


@pytest.mark.usefixtures("live")
def test_a_mode_is_done_at_once_and_listed(run: Run) -> None:
    view = plan_of(run, "mode=chunked")
    ran = run("apply", view.id, "--wait")
    assert ran.code == 0
    assert "done (1 of 1 steps): mode pd -> chunked" in ran.out
    assert run("plan", "mode=chunked").code == 1
    again = run("operations", "--json").document["items"]
    assert [one["state"] for one in again] == ["done"]
    listed = run("operations")
    assert "mode pd -> chunked" in listed.out
    assert f"{user_at_host()}, claimed (cli)" in listed.out
    one = run("operations", again[0]["id"], "--json").document
    assert OperationView.model_validate(one).steps_done == 1


@pytest.mark.usefixtures("live")
def test_what_is_so_already_is_no_failure(run: Run) -> None:
    ran = run("resize", "decode=3", "--yes")
    assert ran.code == 0
    assert "Nothing to do" in ran.out


def test_a_wait_that_is_too_long_has_its_own_code(run: Run, live: Live) -> None:
    ran = run("resize", "decode=4", "--yes", "--wait", "--timeout", "0.2s")
    assert ran.code == 6
    assert "goes on" in ran.err
    assert "next: launch decode-3" in ran.err
    (one,) = live.world.plane.plans.runs.all()
    assert run("cancel", one.id).code == 0
    assert live.world.state.fleet.desired.pools[1].size == 3
    assert run("cancel", one.id).code == 5
    assert run("operations", one.id).code == 5


def test_a_plan_whose_world_moved_is_a_conflict(run: Run, live: Live) -> None:
    view = plan_of(run, "decode=4")
    live.do(lambda: live.world.change("decode-0", Phase.BACKOFF, Reason.EXITED, "gone"))
    ran = run("apply", view.id)
    assert ran.code == 5
    assert "decode-0 is backoff, it was ready" in ran.err


def test_what_is_refused_is_shown_and_logged_and_fails(run: Run, live: Live) -> None:
    def narrow() -> None:
        state = live.world.state
        pools = tuple(
            replace(pool, devices=("0", "1", "2")) if pool.name == "decode" else pool
            for pool in state.fleet.desired.pools
        )
        state.set_desired(replace(state.fleet.desired, pools=pools))

    live.do(narrow)
    ran = run("resize", "decode=9", "--yes")
    assert ran.code == 1
    assert "refused: decode wants 9, but none of its 3 devices is free" in ran.out
    run("resize", "decode=9", "--dry-run")  # the same again
    (entry,) = json.loads(run("audit", "--outcome", "refused", "--json").out)["items"]
    assert (entry["verb"], entry["source"], entry["about"]) == ("resize", "cli", ["decode"])
    assert "none of its 3 devices is free" in entry["message"]


@pytest.mark.usefixtures("live")
def test_a_fleet_file_is_checked_here_and_planned_there(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "new.toml"
    file.write_text("[fleet]\nmodel = 1\n[pools.decode]\nsize = -1\n")
    ran = run("plan", "--file", file)
    assert ran.code == 2
    assert "new.toml:2:" in ran.err
    file.write_text(
        '[fleet]\nname = "simulated"\nmodel = "models/tiny-llama"\nserved_name = "tiny"\n'
        '[engine]\nkind = "simulated"\nlauncher = "subprocess"\n'
        "[pools.prefill]\nsize = 2\n[pools.decode]\nsize = 4\n"
    )
    view = plan_of(run, "--file", file)
    assert "pools.decode.size 3 -> 4" in view.change
    assert not view.refused


def test_a_fleet_file_is_applied_through_a_plan(run: Run, live: Live, tmp_path: Path) -> None:
    file = tmp_path / "new.toml"
    file.write_text(
        '[fleet]\nname = "simulated"\nmodel = "models/tiny-llama"\nserved_name = "tiny"\n'
        '[engine]\nkind = "simulated"\nlauncher = "subprocess"\n'
        "[pools.prefill]\nsize = 2\n[pools.decode]\nsize = 4\n"
    )
    assert run("apply").code == 2
    assert run("apply", "plan-1", "--file", file).code == 2
    assert run("apply", "--file", file).code == 2, "nobody said yes"
    assert "decode-3" in run("apply", "--file", file, "--dry-run").out
    assert live.world.state.fleet.desired.pools[1].size == 3
    ran = run("apply", "--file", file, "--yes")
    assert ran.code == 0
    assert "pools.decode.size 3 -> 4" in ran.out
    assert live.world.state.fleet.desired.pools[1].size == 4


@pytest.mark.usefixtures("live")
def test_what_was_not_rehearsed_is_said_in_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdctl.control.plans.rehearse", partial(rehearse, budget=20))
    ran = run("plan", "decode=6")
    assert "... and the same goes on for 3 of decode, not rehearsed one by one" in ran.out
    assert "mode pd  at least 92 s" in ran.out
    assert "capacity: decode 3 -> 6" in ran.out
    ran = run("resize", "decode=6", "--yes")
    assert "running (0 of 3 instances)" in ran.out


@pytest.mark.parametrize(
    ("text", "expected"), [("90", 90), ("90s", 90), ("5m", 300), ("1h", 3600), ("0.5m", 30)]
)
def test_times(text: str, expected: float) -> None:
    assert carry.seconds(text) == expected


def test_no_time() -> None:
    with pytest.raises(Stop, match="5m"):
        carry.seconds("5 minutes")


@pytest.mark.usefixtures("live")
def test_the_router_is_shown_and_switched(run: Run, live: Live) -> None:
    assert "prefill_policy             least_loaded" in run("router").out
    ran = run("router", "set", "prefill_policy=cost", "pd_min_prompt_tokens=256")
    assert ran.code == 0
    assert live.world.state.fleet.desired.router.pd_min_prompt_tokens == 256
    assert run("router", "--json").document["prefill_policy"] == "cost"
    wrong = run("router", "set", "prefill_policy=costly")
    assert wrong.code == 1
    assert "Did you mean 'cost'?" in wrong.err
    for words in (("set",), ("prefill_policy=cost",), ("set", "prefill=2")):
        assert run("router", *words).code == 2
    assert [step.kind for step in plan_of(run, "decode_policy=cost").steps] == ["route"]

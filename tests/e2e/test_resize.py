"""Pools change while they serve: no request fails, no stream is cut, and every text is the same."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import SUBPROCESS
from tests.e2e.conftest import _run as running
from tests.e2e.live import LiveFleet, wait_for
from tests.e2e.test_handoff import answer, prompt
from tests.e2e.traffic import STREAMS, change, flows, ids, pdctl, traffic


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveFleet]:
    """A fleet of its own, with room for three of each role, whose members may change sides."""
    yield from running(
        LiveFleet(
            "simulated", tmp_path_factory.mktemp("resize"), SUBPROCESS, "tiny",
            prefill='elastic = true\ncores = ["0", "2", "4"]',
            decode='elastic = true\ncores = ["1", "3", "5"]',
        )
    )  # fmt: skip


@pytest.fixture
def roomy(served: LiveFleet) -> LiveFleet:
    """One prefill and one decode in PD mode, whatever was done before."""
    if served.fleet()["shape"] != "1p1d":
        change(served, "resize", "prefill=1", "decode=1")
    served.set_mode("pd")
    served.wait_ready()
    return served


def test_decode_grows_and_shrinks_under_four_streams(roomy: LiveFleet) -> None:
    with traffic(roomy) as asked:
        flows(asked)
        grown = change(roomy, "resize", "decode=2")
        decodes = {id_ for id_ in ids(roomy) if id_.startswith("decode")}
        assert len(decodes) == 2
        states = {pair["state"] for pair in roomy.fleet()["pairs"]}
        assert states == {"ok"}
        flows(asked, 2 * STREAMS)
        page = roomy.get("/api/v1/requests", limit=2 * STREAMS)["items"]
        assert {one["decode"] for one in page} == decodes
        shrunk = change(roomy, "resize", "decode=1")
        assert len(ids(roomy)) == 2
        flows(asked)
    assert asked.wrong == []
    assert grown["steps_done"] == grown["steps_total"]
    assert shrunk["steps_done"] == shrunk["steps_total"]


def test_restart_drain_stop_and_mode_under_four_streams(roomy: LiveFleet) -> None:
    with traffic(roomy) as asked:
        flows(asked)
        change(roomy, "restart", "decode")
        change(roomy, "resize", "decode=2")
        first, second = sorted(id_ for id_ in ids(roomy) if id_.startswith("decode"))
        change(roomy, "drain", first)
        assert roomy.instance(first)["phase"] == "draining"
        flows(asked)
        change(roomy, "undrain", first)
        roomy.set_mode("chunked")
        change(roomy, "stop", second)
        roomy.set_mode("pd")
        flows(asked)
        assert second not in ids(roomy)
    assert asked.wrong == []


def test_a_resize_survives_the_death_of_the_control_plane(roomy: LiveFleet) -> None:
    change(roomy, "resize", "decode=2")
    drained = max(id_ for id_ in ids(roomy) if id_.startswith("decode"))
    change(roomy, "drain", drained)
    before = {one["id"]: one["pid"] for one in roomy.fleet()["instances"]}
    roomy.stop(signal.SIGKILL)
    roomy.start()

    def held() -> bool:
        phases = {one["id"]: one["phase"] for one in roomy.fleet()["instances"]}
        return phases == {id_: "draining" if id_ == drained else "ready" for id_ in before}

    wait_for("the drained instance to be held again", held, seconds=60)
    assert {one["id"]: one["pid"] for one in roomy.fleet()["instances"]} == before
    assert answer(roomy, stream=True, prompt=prompt(300, salt=9))[0]


def test_an_instance_changes_sides_under_four_streams_with_the_same_process(
    roomy: LiveFleet,
) -> None:
    change(roomy, "resize", "decode=2")
    mover = min(id_ for id_ in ids(roomy) if id_.startswith("decode"))
    before = {one["id"]: one["pid"] for one in roomy.fleet()["instances"]}
    with traffic(roomy) as asked:
        flows(asked)
        there = change(roomy, "move", mover, "--role", "prefill")
        assert roomy.fleet()["shape"] == "2p1d"
        flows(asked, 2 * STREAMS)
        page = roomy.get("/api/v1/requests", limit=2 * STREAMS)["items"]
        assert mover in {one["prefill"] for one in page}
        change(roomy, "move", mover, "--role", "decode")
        flows(asked)
    assert asked.wrong == []
    assert "nothing is loaded" in there["change"][0]
    assert {one["id"]: one["pid"] for one in roomy.fleet()["instances"]} == before


def test_other_flags_roll_through_under_four_streams(roomy: LiveFleet) -> None:
    text = (roomy.folder / "fleet.toml").read_text(encoding="utf-8")
    file = roomy.folder / "other.toml"
    file.write_text(
        text.replace(SUBPROCESS, f"{SUBPROCESS}\nargs = {{ max-num-seqs = 64 }}"), encoding="utf-8"
    )
    before = {one["pid"] for one in roomy.fleet()["instances"]}
    with traffic(roomy) as asked:
        flows(asked)
        plan = pdctl(roomy, "plan", "--file", str(file))
        assert "engine.args.max-num-seqs nothing -> 64" in plan["change"]
        done = pdctl(roomy, "apply", plan["id"], "--wait", "--timeout", "3m")
        flows(asked)
    assert asked.wrong == []
    assert done["state"] == "done"
    fleet = roomy.wait_ready()
    assert not before & {one["pid"] for one in fleet["instances"]}
    assert not any(one["outdated"] for one in fleet["instances"])

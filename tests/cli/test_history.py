"""What was wanted and what was done, from the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Live, Run

from pdctl.client.claim import user_at_host
from pdctl.domain.lifecycle import Phase, Reason


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    """A world of its own, every instance of which is ready."""
    with Live("normal", tmp_path / "world") as world:
        monkeypatch.setenv("PDCTL_URL", world.url)

        def mend() -> None:
            for one in world.world.state.fleet.instances:
                world.world.change(one.id, Phase.READY, Reason.DESIRED, "")

        world.do(mend)
        yield world


@pytest.mark.usefixtures("live")
def test_nothing_to_undo_at_first(run: Run) -> None:
    ran = run("undo", "--yes")
    assert ran.code == 1
    assert "first revision" in ran.err


def test_history_diff_and_undo(run: Run, live: Live) -> None:
    assert run("resize", "decode=4", "--yes").code == 0
    assert run("mode", "chunked").code == 0
    listed = run("history")
    assert "3 *" in listed.out
    assert "decode 3 -> 4" in listed.out
    assert "pdctl history --before 2" in run("history", "--limit", "2").err
    assert run("diff", "1", "3").out.splitlines() == [
        "mode pd -> chunked",
        "pools.decode.size 3 -> 4",
    ]
    assert "want the same fleet" in run("diff", "2", "2").err
    assert run("diff", "1", "9").code == 1
    shown = run("undo", "--dry-run")
    assert "change: back to revision 2" in shown.out
    assert live.world.state.fleet.desired.revision == 3
    assert run("undo", "--to", "1", "--yes").code == 0
    assert live.world.state.fleet.desired.shape == "2p3d"
    assert live.world.state.fleet.desired.revision == 4
    assert run("undo", "--to", "77", "--yes").code == 1
    assert [one["revision"] for one in run("history", "--json").document["items"]] == [4, 3, 2, 1]


@pytest.mark.usefixtures("live")
def test_the_log_is_a_table_a_document_and_lines(run: Run) -> None:
    assert run("resize", "decode=4", "--yes").code == 0
    assert run("restart", "prefill-0", "--yes").code == 0
    table = run("audit", "--verb", "resize")
    assert f"{user_at_host()}, claimed (cli)" in table.out
    assert "prefill-0" not in table.out
    page = run("audit", "--subject", "prefill-0", "--json").document
    assert [one["verb"] for one in page["items"]] == ["restart"]
    lines = run("audit", "--export", "--source", "cli").documents
    assert [one["verb"] for one in lines][:2] == ["resize", "restart"]
    assert run("audit", "--export", "--actor", "nobody").out == ""

"""`pdctl instance`: everything in words, with an age, and what is unknown as a dash."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.cli.conftest import Run

from pdctl.cli.instance import _stats, _usage
from pdctl.contract.engine import GpuView, StatsView, UsageView

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.usefixtures("url")
def test_an_instance_is_shown_whole(run: Run) -> None:
    ran = run("instance", "prefill-0")
    assert ran.code == 0
    for word in ("prefill-0  ready", "Metrics", "Machine", "4 processes, 1.04 cores", "GPU 0"):
        assert word in ran.out
    document = run("instance", "prefill-0", "--json").document
    assert (document["id"], document["usage"]["processes"]) == ("prefill-0", 4)


@pytest.mark.usefixtures("url")
def test_one_that_is_not_there_is_refused(run: Run) -> None:
    assert run("instance", "decode-99").code != 0


def test_numbers_have_ages_and_what_is_old_says_so() -> None:
    stats = StatsView(at=NOW - timedelta(seconds=45), stale=True, nixl_transfers=4, nixl_seconds=1)
    told = dict(_stats(stats, NOW))
    assert told["Metrics"] == "STALE: 45s old"
    assert "4 transfers (250 ms each), -; - failed" in told["NIXL"]
    assert told["Caches"] == "own -, connector -"
    assert "KV pulls" not in told
    assert dict(_stats(None, NOW)) == {"Metrics": "not read yet"}


def test_devices_are_told_as_far_as_they_tell() -> None:
    usage = UsageView(
        at=NOW, processes=3, cpu_seconds=1.0, resident=3e9, gpus=[GpuView(device="0", busy=0.5)]
    )
    told = dict(_usage(usage, NOW))
    assert told["Machine"] == "3 processes, - cores, 2.8 GiB of memory, 0s ago"
    assert told["GPU 0"] == "50 % busy, - of - (- its own), - W, - °C"

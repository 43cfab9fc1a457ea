"""Load progress from log lines."""

from __future__ import annotations

from pathlib import Path

from pdctl.adapters.vllm.progress import finished, parse
from pdctl.domain.instance import Progress

REAL = Path(__file__).with_name("recorded") / "start_decode.log"
"""What a vLLM 0.32 CPU instance wrote while it started."""


def test_shards_give_a_fraction() -> None:
    line = "\rLoading safetensors checkpoint shards:  75% Completed | 3/4 [00:01<00:00]"
    assert parse(line, None) == Progress("loading weights", 0.75)


def test_unknown_lines_change_nothing() -> None:
    before = Progress("loading weights", 0.5)
    assert parse("(Worker pid=3) something new in 0.33", before) is before
    assert parse("", None) is None


def test_a_stage_that_goes_on_keeps_its_fraction() -> None:
    before = Progress("loading weights", 0.5)
    assert parse("(Worker pid=3) INFO Starting to load model x...", before) is before


def test_startup_complete_ends_it() -> None:
    done = parse("INFO:     Application startup complete.", Progress("starting the server"))
    assert finished(done)
    assert not finished(Progress("starting the server"))
    assert not finished(None)


def test_a_real_start_passes_through_the_stages_in_order() -> None:
    stages: list[str] = []
    progress: Progress | None = None
    for line in REAL.read_text().replace("\r", "\n").splitlines():
        progress = parse(line, progress)
        if progress and (not stages or stages[-1] != progress.stage):
            stages.append(progress.stage)
    assert finished(progress)
    assert stages == [
        "reading the model's configuration",
        "starting the engine",
        "loading weights",
        "weights loaded",
        "KV cache allocated",
        "registering the KV cache",
        "engine ready",
        "starting the server",
        "serving",
    ]

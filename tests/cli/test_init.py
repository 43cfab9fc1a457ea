"""The first fleet file: valid on every machine, and what was asked for."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.conftest import Run

from pdctl.cli.draft import (
    CPU_INSTANCE_BYTES,
    GIB,
    Engine,
    Gpu,
    Machine,
    TooFewError,
    Wishes,
    draft,
    render,
)
from pdctl.cli.terminal import ExitCode
from pdctl.fleetfile import check

HERE = tuple(sorted(os.sched_getaffinity(0)))
CUDA = Engine(sys.executable, "0.32.0", "1.5.1", cpu=False)
CPU = Engine(sys.executable, "0.32.0", "1.5.1", cpu=True)


def gpus(number: int, total_mib: int = 81920) -> tuple[Gpu, ...]:
    return tuple(Gpu(str(n), "NVIDIA H100", total_mib, total_mib) for n in range(number))


def machines() -> st.SearchStrategy[Machine]:
    return st.builds(
        Machine,
        cores=st.integers(1, len(HERE)).map(lambda n: HERE[:n]),
        memory_bytes=st.integers(0, 2048 * GIB),
        gpus=st.integers(0, 16).map(gpus),
        engines=st.sampled_from([(CPU, CUDA), (CPU,), (CUDA,)]),
    )


@given(
    machines(),
    st.builds(
        Wishes,
        model=st.sampled_from(["org/Model", "Model"]),
        weights_bytes=st.none() | st.integers(1, 2000 * GIB),
        python=st.just(sys.executable),
        prefill=st.none() | st.integers(1, 9),
        decode=st.none() | st.integers(1, 9),
        tensor_parallel=st.none() | st.sampled_from([1, 2, 4, 8]),
        simulated=st.booleans(),
    ),
)
def test_what_is_written_is_valid_and_as_asked(machine: Machine, wishes: Wishes) -> None:
    try:
        text = render(draft(machine, wishes))
    except TooFewError:
        return
    spec, mistakes = check(text, Path.cwd() / "fleet.toml")
    assert spec is not None, (mistakes, text)
    assert not [one for one in mistakes if one.severity == "error"]
    sizes = {str(pool.name): pool.size for pool in spec.pools}
    for name in ("prefill", "decode"):
        if wish := getattr(wishes, name):
            assert sizes[name] == wish
    assert spec.model == wishes.model


def test_two_gpus_make_a_pair_and_one_makes_none() -> None:
    two = draft(Machine(HERE, 64 * GIB, gpus(2), (CUDA,)), Wishes())
    assert [(pool.name, pool.slots) for pool in two.pools] == [
        ("prefill", ("0",)),
        ("decode", ("1",)),
    ]
    one = draft(Machine(HERE, 64 * GIB, gpus(1), (CUDA,)), Wishes())
    assert (one.mode, [pool.name for pool in one.pools]) == ("chunked", ["all"])


def test_a_large_model_gets_more_gpus_for_each_instance() -> None:
    wishes = Wishes(model="big", weights_bytes=140 * GIB)
    made = draft(Machine(HERE, 64 * GIB, gpus(8), (CUDA,)), wishes)
    assert made.args["tensor-parallel-size"] == 4
    assert [pool.slots for pool in made.pools] == [("0,1,2,3",), ("4,5,6,7",)]
    with pytest.raises(TooFewError, match="do not fit on 2 GPUs"):
        draft(Machine(HERE, 64 * GIB, gpus(2), (CUDA,)), wishes)


def test_spare_devices_are_decodes_to_grow_into() -> None:
    made = draft(Machine(HERE, 64 * GIB, gpus(8), (CUDA,)), Wishes(prefill=1, decode=2))
    assert [len(pool.slots) for pool in made.pools] == [1, 7]
    assert "5 more may join decode" in " ".join(made.why)


def test_an_engine_with_nixl_wins_and_a_lack_is_said() -> None:
    bare = Engine("/a/python", "0.32.0", "", cpu=False)
    machine = Machine(HERE, 64 * GIB, gpus(2), (bare, CUDA))
    assert draft(machine, Wishes()).python == CUDA.python
    lacking = draft(Machine(HERE, 64 * GIB, gpus(2), (bare,)), Wishes(model="m"))
    assert lacking.todo == ("There is no NIXL beside vLLM: /a/python -m pip install nixl",)


def test_cores_are_shared_out_or_left_alone() -> None:
    four = draft(Machine((0, 1, 2, 3), 64 * GIB, (), (CPU,)), Wishes(model="m"))
    assert [pool.slots for pool in four.pools] == [("0,1",), ("2,3",)]
    one = draft(Machine((0,), 64 * GIB, (), (CPU,)), Wishes(model="m"))
    assert [pool.where for pool in one.pools] == ["", ""]
    with pytest.raises(TooFewError, match="5 CPU instances want a core each and about 20 GiB"):
        draft(Machine((0, 1), 8 * CPU_INSTANCE_BYTES, (), (CPU,)), Wishes(prefill=2, decode=3))


def test_init_writes_looks_and_never_overwrites(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    ran = run("init", "--simulated", "--prefill", 2, file)
    assert (ran.code, ran.out.strip()) == (0, f"{file} is written.")
    assert f"{len(HERE)} cores" in ran.err
    assert f"pdctl serve --file {file}" in ran.err
    assert tomllib.loads(file.read_text())["pools"]["prefill"]["size"] == 2
    assert run("validate", file).code == 0

    before = file.read_text()
    again = run("init", "--simulated", file)
    assert again.code == ExitCode.CONFLICT
    assert "--force" in again.err
    assert file.read_text() == before
    forced = run("init", "--simulated", "--force", "--json", file)
    assert forced.document["file"] == str(file)
    assert forced.document["why"]
    assert file.read_text() != before

    shown = run("init", "--simulated", "-")
    assert tomllib.loads(shown.out)["engine"]["kind"] == "simulated"

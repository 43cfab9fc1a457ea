"""Everything an operator may change while clients stream, one after the other, on one fleet.

Prefix caching is off: else a prompt that comes again moves no KV, and every handoff here must.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from pdctl.engine_env import find_engine
from pdctl.engine_env.cpu import ENGINE_ARGS, ENGINE_ENV, MODULE
from pdctl.shim import procfs
from tests.e2e.conftest import SUBPROCESS, _toml, real_engine
from tests.e2e.conftest import _run as running
from tests.e2e.live import LiveFleet, wait_for
from tests.e2e.test_handoff import prompt
from tests.e2e.test_orphans import seen
from tests.e2e.test_survival import gone, shared_memory
from tests.e2e.traffic import STREAMS, Traffic, change, flows, ids, pdctl, traffic

LENGTHS = (2000, 150, 2050, 300)
"""Prompt tokens: long prompts beside short ones; each of four streams asks all of them in turn."""
NO_CACHE = {"no-enable-prefix-caching": True}
UNBOUND = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}
"""Three engines on any number of cores."""
ByHand = Callable[[], "subprocess.Popen[bytes]"]
ELASTIC = "elastic = true"
THINK_S = 1.0
"""A third engine has to load on two cores that the first two and the clients use as well."""
LONG = 900
"""Tokens of an answer that is still being written when its engine is told to end."""
ABORTED = {"the engine aborted the request", "the stream ended without a token"}
"""How the router calls it: of an answer in one piece, and of a stream."""
BAD = {
    "simulated": ("no-such-flag = 1", "unrecognized arguments: --no-such-flag"),
    "vllm": ("max-model-len = 999999", "max_model_len (999999)"),
}
"""An argument that the engine itself refuses, and its words."""


@pytest.fixture(scope="module")
def simulated_elastic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveFleet]:
    """1P1D of simulated engines that may change sides."""
    engine = f"{SUBPROCESS}\n[engine.args]\n{_toml(NO_CACHE)}"
    folder = tmp_path_factory.mktemp("live")
    yield from running(LiveFleet("simulated", folder, engine, "tiny", ELASTIC, ELASTIC))


@pytest.fixture(scope="module")
def real_elastic(
    tmp_path_factory: pytest.TempPathFactory, real_machine: None
) -> Iterator[LiveFleet]:
    """The same of real vLLM."""
    engine, model = real_engine(NO_CACHE, UNBOUND)
    folder = tmp_path_factory.mktemp("live-real")
    yield from running(LiveFleet("vllm", folder, engine, model, ELASTIC, ELASTIC))


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.real)])
def elastic(request: pytest.FixtureRequest) -> LiveFleet:
    """The same scenario on simulated and on real engines."""
    live: LiveFleet = request.getfixturevalue(f"{request.param}_elastic")
    return live


def clients(fleet: LiveFleet) -> Traffic:
    """Four streams with long prompts."""
    return traffic(fleet, LENGTHS, pause_s=THINK_S if fleet.kind == "vllm" else 0.0)


def newest(fleet: LiveFleet, count: int) -> list[dict[str, Any]]:
    """The last finished requests."""
    return list(fleet.get("/api/v1/requests", limit=count)["items"])


def test_size_role_and_mode_change_under_four_streams(elastic: LiveFleet) -> None:
    with clients(elastic) as asked:
        flows(asked)
        change(elastic, "resize", "decode=2")
        mover = max(id_ for id_ in ids(elastic) if id_.startswith("decode"))
        flows(asked, 2 * STREAMS)
        grown = newest(elastic, 2 * STREAMS)
        there = change(elastic, "move", mover, "--role", "prefill")
        assert elastic.fleet()["shape"] == "2p1d"
        flows(asked, 2 * STREAMS)
        moved = newest(elastic, 2 * STREAMS)
        change(elastic, "move", mover, "--role", "decode")
        elastic.set_mode("chunked")
        wait_for("whole ones alone", lambda: paths(elastic) == {"chunked"}, seconds=90)
        elastic.set_mode("pd")
        flows(asked, 2 * STREAMS)
        change(elastic, "resize", "decode=1")
        assert elastic.fleet()["shape"] == "1p1d"
        flows(asked)
    assert asked.wrong == []
    assert mover in {one["decode"] for one in grown}
    assert "nothing is loaded" in there["change"][0]
    assert mover in {one["prefill"] for one in moved}
    for one in [*grown, *moved, *newest(elastic, STREAMS)]:
        assert (one["path"], one["outcome"]) == ("pd", "ok")
        assert one["remote_tokens"] == one["prompt_tokens"], "all of its KV was handed over"


def tried_again(fleet: LiveFleet) -> set[str]:
    """Why legs of the last requests failed that were tried again; every request was answered."""
    found = [one for one in newest(fleet, 100) if one["retries"]]
    assert {one["outcome"] for one in found} <= {"ok"}
    return {leg["error"] for one in found for leg in one["legs"] if leg["error"]}


def test_an_engine_that_drains_without_our_knowing_costs_no_request(elastic: LiveFleet) -> None:
    """What is new it answers with status 200 and "abort" (vLLM, v1/engine/core.py)."""
    change(elastic, "resize", "decode=2")
    before = elastic.engine_pids()
    victim = max(id_ for id_ in before if id_.startswith("decode"))
    long = {"max_tokens": LONG, "ignore_eos": True}
    asked = clients(elastic)
    with ThreadPoolExecutor(2) as pool:
        held = [pool.submit(elastic.complete, prompt=prompt(200, salt=n), **long) for n in (1, 2)]
        wait_for("one of them on each", lambda: busy(elastic), seconds=60)
        os.kill(before[victim], signal.SIGTERM)
        with asked:
            wait_for("a second try", lambda: ABORTED & tried_again(elastic), seconds=60)
            flows(asked)
        for one in held:
            assert one.result(120)["choices"][0]["finish_reason"] == "length"
    wait_for("another process", lambda: renewed(elastic, victim, before), seconds=240)
    assert asked.wrong == []
    change(elastic, "resize", "decode=1")


def busy(fleet: LiveFleet) -> bool:
    """Whether every decode instance holds one of the long answers."""
    loads = [one["inflight"] for one in fleet.fleet()["instances"] if one["pool"] == "decode"]
    return bool(min(loads))


def renewed(fleet: LiveFleet, id_: str, before: dict[str, int]) -> bool:
    """Whether it is ready again, as another process."""
    now = fleet.instance(id_)
    return bool(now["phase"] == "ready" and now["pid"] != before[id_])


def paths(fleet: LiveFleet) -> set[object]:
    """Of the last finished requests of every stream."""
    return {one["path"] for one in newest(fleet, STREAMS)}


def rewrite(fleet: LiveFleet, *swaps: tuple[str, str]) -> str:
    """A file like the fleet's with other text in the places of some; its path."""
    text = (fleet.folder / "fleet.toml").read_text(encoding="utf-8")
    for old, new in swaps:
        assert old in text
        text = text.replace(old, new)
    file = fleet.folder / "other.toml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def pids(fleet: LiveFleet, pool: str = "") -> set[int]:
    """Of the engines."""
    found = fleet.fleet()["instances"]
    return {one["pid"] for one in found if one["pool"] == pool or not pool}


def launched(fleet: LiveFleet, pool: str) -> tuple[str, str]:
    """Command line and environment of the engine of a pool, as the kernel has them."""
    (pid,) = pids(fleet, pool)
    folder = Path(f"/proc/{pid}")
    words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return words, (folder / "environ").read_bytes().replace(b"\0", b" ").decode()


def test_other_flags_roll_through_and_bad_ones_stop_at_the_first(elastic: LiveFleet) -> None:
    head = f'[pools.prefill]\nrole = "prefill"\nsize = 1\n{ELASTIC}\n'
    good = f'{head}args = {{ max-num-batched-tokens = 1024 }}\nenv = {{ ROLLED = "yes" }}\n'
    bad, words = BAD[elastic.kind]
    prefill, decode = pids(elastic, "prefill"), pids(elastic, "decode")
    with clients(elastic) as asked:
        flows(asked)
        change(elastic, "apply", "--file", rewrite(elastic, (head, good)))
        flows(asked)
        assert pids(elastic, "decode") == decode
        assert not pids(elastic, "prefill") & prefill
        argv, env = launched(elastic, "prefill")
        assert "--max-num-batched-tokens 1024" in argv
        assert "ROLLED=yes" in env
        rolled = pids(elastic)
        file = rewrite(elastic, (head, good.replace("args = { ", f"args = {{ {bad}, ")))
        failed = pdctl(elastic, "apply", "--file", file, "--yes", "--wait", code=1)
        assert words in failed["message"]
        flows(asked)
        assert rolled <= pids(elastic)
        change(elastic, "undo")
        assert pids(elastic) == rolled
        flows(asked)
    assert asked.wrong == []


@contextmanager
def looking(fleet: LiveFleet) -> Iterator[list[dict[str, Any]]]:
    """The fleet as it was shown again and again."""
    seen: list[dict[str, Any]] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(0.2):
            seen.append(fleet.fleet())

    with ThreadPoolExecutor(1) as pool:
        looks = pool.submit(look)
        try:
            yield seen
        finally:
            stop.set()
        looks.result(60)


def mixed(view: dict[str, Any]) -> list[tuple[str, str]]:
    """Pairs that may hand over though their ends differ in what both must share."""
    has = {one["id"]: one["compat"] for one in view["instances"]}
    ends = [(one["prefill"], one["decode"]) for one in view["pairs"] if one["state"] == "ok"]
    return [(one, other) for one, other in ends if has.get(one) != has.get(other)]


def test_another_model_pairs_old_with_old_and_new_with_new(
    elastic: LiveFleet, tmp_path: Path
) -> None:
    """Of real engines there are never four: decode goes first, and is served for meanwhile."""
    old = pids(elastic)
    if elastic.kind == "vllm":
        model = shutil.copytree(elastic.model, tmp_path / "model")
        pool = f'[pools.decode]\nrole = "decode"\nsize = 1\n{ELASTIC}\n'
        file = rewrite(elastic, (elastic.model, str(model)), (pool, f"{pool}surge = 0\n"))
    else:
        file = rewrite(elastic, ('model = "tiny"', 'model = "tiny-2"'))
    with clients(elastic) as asked, looking(elastic) as views:
        flows(asked)
        change(elastic, "apply", "--file", file)
        wait_for("handoffs alone", lambda: paths(elastic) == {"pd"}, seconds=90)
    assert asked.wrong == []
    assert not old & pids(elastic)
    assert any(len({one["compat"] for one in view["instances"]}) == 2 for view in views)
    assert [ends for view in views for ends in mixed(view)] == []


def test_a_control_plane_is_replaced_and_killed_under_four_streams(elastic: LiveFleet) -> None:
    engines = elastic.engine_pids()
    with clients(elastic) as asked:
        flows(asked)
        elastic.replace()
        elastic.wait_ready(seconds=60)
        flows(asked)
        elastic.stop(signal.SIGKILL)
        flows(asked)
        elastic.start()
        elastic.wait_ready(seconds=60)
        flows(asked)
    assert asked.wrong == []
    assert elastic.engine_pids() == engines


@pytest.fixture
def by_hand(real_elastic: LiveFleet, tmp_path: Path) -> Iterator[ByHand]:
    """Starts vLLM as an operator would from a shell, on the last ports of the fleet's bands."""
    text = (real_elastic.folder / "fleet.toml").read_text(encoding="utf-8")
    bands = dict(re.findall(r'^(http|side_channel) = "\d+-(\d+)"', text, re.MULTILINE))
    engine = find_engine()
    assert engine is not None
    kv = {"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_buffer_device": "cpu",
          "kv_connector_extra_config": {"kv_lease_duration": 10}}  # fmt: skip
    argv = [
        str(engine.python), "-m", MODULE, "--model", real_elastic.fleet()["model"],
        "--served-model-name", "tiny", "--port", bands["http"], "--shutdown-timeout", "20",
        "--kv-transfer-config", json.dumps(kv), *ENGINE_ARGS, "--no-enable-prefix-caching",
    ]  # fmt: skip
    env = {**os.environ, **ENGINE_ENV, **UNBOUND}
    env["VLLM_NIXL_SIDE_CHANNEL_PORT"] = bands["side_channel"]
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        with (tmp_path / "by-hand.log").open("ab") as log:
            one = subprocess.Popen(argv, env=env, stdout=log, stderr=log, process_group=0)
        started.append(one)
        return one

    yield start
    for one in started:
        one.terminate()  # it removes its shared memory only when it is asked to end
        with contextlib.suppress(subprocess.TimeoutExpired):
            one.wait(60)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(one.pid, signal.SIGKILL)
        one.wait()


@pytest.mark.real
def test_a_vllm_started_by_hand_is_adopted_and_what_one_leaves_is_ended(
    real_elastic: LiveFleet, by_hand: ByHand
) -> None:
    fleet, engine = real_elastic, by_hand()
    words = psutil.Process(engine.pid).cmdline()
    health = f"http://127.0.0.1:{words[words.index('--port') + 1]}/health"
    wait_for("its voice", lambda: fleet.http.get(health).status_code == 200, seconds=240)
    found = seen(fleet, engine.pid)
    assert (found["kind"], found["kv_role"]) == ("foreign", "kv_both")
    done = pdctl(fleet, "orphans", "adopt", found["key"], "--pool", "decode", "--yes")
    id_ = done["instance"]
    wait_for("it is ready", lambda: fleet.instance(id_)["phase"] == "ready", seconds=120)
    with clients(fleet) as asked:
        wait_for("its legs", lambda: id_ in {one["decode"] for one in newest(fleet, STREAMS)},
                 seconds=90)  # fmt: skip
        change(fleet, "stop", id_)
        flows(asked)
    assert asked.wrong == []
    assert engine.wait(60) == 0

    engine = by_hand()
    whole = seen(fleet, engine.pid, part="Worker", seconds=240)
    files = {name for one in whole["processes"] for name, _ in procfs.segments(one["pid"])}
    family = [psutil.Process(one["pid"]) for one in whole["processes"]]
    engine.kill()
    engine.wait()
    core = next(one["pid"] for one in whole["processes"] if one["what"] == "EngineCore")
    left = seen(fleet, core)
    assert left["kind"] == "orphaned"
    pdctl(fleet, "orphans", "kill", left["key"], "--yes")
    wait_for("its family gone", lambda: gone(family), seconds=30)
    assert not files & shared_memory()

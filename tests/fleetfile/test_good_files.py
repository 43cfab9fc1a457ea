"""What a fleet file means: every key, every way to write a value, and the shipped examples."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pdctl.domain.topology import FleetSpec, Mode, PortBand, Role
from pdctl.fleetfile import check, load

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SMALL = '[fleet]\nmodel = "m"\n[engine]\nkind = "simulated"\n[pools.prefill]\n[pools.decode]\n'


def read(text: str, path: str = "fleet.toml") -> FleetSpec:
    spec, mistakes = check(text, Path(path))
    assert spec is not None, "\n".join(f"{one.line}: {one}" for one in mistakes)
    return spec


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_examples_are_valid(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "engine" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    (tmp_path / "config.json").touch()
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HF_TOKEN", "x")
    monkeypatch.setenv("PDCTL_ENGINE", str(python))
    monkeypatch.setenv("PDCTL_MODEL", str(tmp_path))
    monkeypatch.delenv("PDCTL_ADMIN_PORT", raising=False)
    spec, mistakes = check(path.read_text(encoding="utf-8"), path)
    assert mistakes == ()
    assert spec is not None
    assert spec.shape == path.stem.rpartition("-")[2]
    assert load(path) == spec


def test_a_small_file_is_enough() -> None:
    spec = read(SMALL, "/somewhere/mine.toml")
    assert (spec.name, spec.served_name, spec.mode) == ("mine", "m", Mode.PD)
    assert [(pool.name, pool.role, pool.size) for pool in spec.pools] == [
        ("prefill", Role.PREFILL, 1),
        ("decode", Role.DECODE, 1),
    ]
    assert spec.engine.launcher == "simulated"
    assert spec.connector.lease_s == 30


def test_every_key_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").touch()
    spec = read(
        f"""
[fleet]
name = "all"
model = "{tmp_path}"
served_name = "x"
mode = "chunked"
[engine]
kind = "vllm"
launcher = "subprocess"
python = "{sys.executable}"
start_timeout = "1h30m"
args = {{ "--max_num_seqs" = 4, enforce_eager = true, speculative-config = {{ k = [1] }} }}
env = {{ OMP_NUM_THREADS = 2, A = "b" }}
[connector]
name = "nixl"
lease = "10s"
buffer_device = "cpu"
options = {{ num_threads = 2, "kv-load-failure-policy" = "recompute" }}
[pools.p]
role = "prefill"
devices = [0, "1, 2"]
size = 1
shutdown_timeout = 40
drain_timeout = 1.5
elastic = true
args.tensor-parallel-size = 1
[router]
host = "::1"
port = 9000
max_inflight_per_instance = 3
queue_limit = 0
queue_timeout = "250ms"
connect_timeout = 1
first_byte_timeout = "2m"
stall_timeout = "1m30s"
slow_client_timeout = "20s"
retries = 0
slo = "chat"
admission = "queue"
max_body = "1.5MiB"
[ports]
http = "19000 - 19001"
side_channel = "19005"
[slo.chat]
ttft = "500ms"
tpot = "1s"
itl_p99 = "0.2s"
"""
    )
    assert spec.engine.args == (
        ("max-num-seqs", 4), ("enforce-eager", True), ("speculative-config", '{"k":[1]}'),
    )  # fmt: skip
    assert spec.engine.env == (("OMP_NUM_THREADS", "2"), ("A", "b"))
    assert spec.engine.start_timeout_s == 5400
    assert spec.connector.options == (("num_threads", 2), ("kv_load_failure_policy", "recompute"))
    assert (spec.connector.lease_s, spec.connector.buffer_device) == (10, "cpu")
    pool = spec.pools[0]
    assert (pool.devices, pool.size) == (("0", "1,2"), 1)
    assert (pool.shutdown_timeout_s, pool.drain_timeout_s) == (40, 1.5)
    assert pool.elastic
    router = spec.router
    assert (router.host, router.port, router.queue_limit, router.retries) == ("::1", 9000, 0, 0)
    assert (router.queue_timeout_s, router.connect_timeout_s) == (0.25, 1.0)
    assert (router.first_byte_timeout_s, router.stall_timeout_s) == (120.0, 90.0)
    assert router.slow_client_timeout_s == 20.0
    assert (router.slo, router.admission) == ("chat", "queue")
    assert router.max_body_bytes == 3 * 2**19
    assert (spec.http_ports, spec.side_channel_ports) == (
        PortBand(19000, 19001), PortBand(19005, 19005),
    )  # fmt: skip
    slo = spec.slos[0]
    assert (slo.name, slo.ttft_ms, slo.tpot_ms, slo.itl_p99_ms) == ("chat", 500, 1000, 200)


def test_a_list_of_slots_gives_the_size() -> None:
    spec = read(SMALL.replace("[pools.decode]", '[pools.decode]\ncores = ["1-2", 3]'))
    assert spec.shape == "1p2d"


def test_paths_start_at_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").touch()
    (tmp_path / "secret").write_text("s")
    monkeypatch.setenv("WHERE", "bin")
    file = tmp_path / "fleet.toml"
    file.write_text(
        '[fleet]\nmodel = "./model"\n[engine]\npython = "$WHERE/../${WHERE}/python"\n'
        'env.KEY = "file:secret"\n'
        '[pools.prefill]\ncores = ["0"]\n[pools.decode]\ncores = ["1"]\n'
    )
    spec = load(file)
    assert spec.model == str(tmp_path / "model")
    assert spec.served_name == "model"
    # The link stays a link: resolving it would leave the environment it belongs to.
    assert spec.engine.python == str(tmp_path / "bin" / "python")
    assert spec.engine.env == (("KEY", f"file:{tmp_path / 'secret'}"),)
    assert spec.connector.buffer_device == "cpu"


def test_windows_newlines_and_a_byte_order_mark_are_fine() -> None:
    assert read("\ufeff" + SMALL.replace("\n", "\r\n")) == read(SMALL)


def test_equal_dtypes_by_two_names_match() -> None:
    text = (
        f'[fleet]\nmodel = "org/m"\n[engine]\npython = "{sys.executable}"\n'
        '[pools.prefill]\ncores = ["0"]\nargs.dtype = "half"\nargs.kv-cache-dtype = "auto"\n'
        '[pools.decode]\ncores = ["1"]\nargs.dtype = "float16"\n'
    )
    assert read(text).shape == "1p1d"


@pytest.mark.parametrize(
    ("router", "pool", "publishing"),
    [
        ("", "", ""),
        ('prefill_policy = "kv_events"', "", "pb"),
        ('decode_policy = "kv_events"', "", "pdb"),
        ("", "kv_events = true", "d"),
        ('decode_policy = "kv_events"', "kv_events = false", "pb"),
        ('decode_policy = "kv_events"', "args.data-parallel-size = 2", "pb"),
    ],
)
def test_pools_publish_kv_events_as_the_policies_need_or_as_they_are_told(
    router: str, pool: str, publishing: str
) -> None:
    spec = read(
        '[fleet]\nmodel = "m"\n[engine]\nkind = "simulated"\n'
        f"[router]\n{router}\n"
        '[pools.p]\nrole = "prefill"\n[pools.b]\nrole = "both"\n'
        f'[pools.d]\nrole = "decode"\n{pool}\n'
    )
    assert {one.name for one in spec.pools if one.kv_events} == set(publishing)

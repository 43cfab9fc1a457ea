"""The exact command line and environment of an instance."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest

from pdctl.adapters.vllm.command import build_command, redact
from pdctl.domain.errors import OperatorError
from pdctl.domain.ids import PoolName
from pdctl.domain.instance import Slot
from pdctl.domain.topology import (
    ArgValue,
    ConnectorSpec,
    EngineSpec,
    FleetSpec,
    Mode,
    PoolSpec,
    Role,
    fingerprint,
)
from pdctl.simulated.arguments import parse

NONCE = "0123456789abcdef"
SLOT = Slot(index=0, http_port=18000, side_channel_port=18100, core="1")
POOL = PoolSpec(PoolName("prefill"), Role.PREFILL, 1, shutdown_timeout_s=40)
FLEET = FleetSpec(
    name="f",
    model="/models/tiny",
    served_name="tiny",
    mode=Mode.PD,
    engine=EngineSpec(python="/engine/bin/python", args=(("dtype", "float32"),)),
    connector=ConnectorSpec(lease_s=10, buffer_device="cpu"),
    pools=(POOL,),
)


def built(
    fleet: FleetSpec = FLEET, pool: PoolSpec = POOL, slot: Slot = SLOT
) -> tuple[list[str], dict[str, str]]:
    """The command of prefill-0."""
    argv, env = build_command(fleet, pool, "prefill-0", slot, NONCE)
    return list(argv), dict(env)


def value(argv: list[str], flag: str) -> str:
    """The word after `flag`."""
    assert argv.count(flag) == 1
    return argv[argv.index(flag) + 1]


def test_several_api_servers_need_the_command_that_starts_them() -> None:
    engine = replace(FLEET.engine, args=(("api-server-count", 2),))
    pool = replace(POOL, args=(("api_server_count", 4), ("data-parallel-size", 4)))
    argv, env = built(replace(FLEET, engine=engine), pool)
    head = ["/engine/bin/python", "-m", "vllm.entrypoints.cli.main", "serve", "/models/tiny"]
    assert argv[:5] == head
    assert "--model" not in argv
    assert (value(argv, "--api-server-count"), value(argv, "--port")) == ("4", "18000")
    assert env["VLLM_NIXL_SIDE_CHANNEL_PORT"] == "18100"
    one = replace(POOL, args=(("api-server-count", 1),))
    assert built(pool=one)[0][2] == "vllm.entrypoints.openai.api_server"
    simulated = replace(engine, kind="simulated", python="")
    assert (
        parse(built(replace(FLEET, engine=simulated), pool)[0][3:]).config.data_parallel_size == 4
    )


def test_vllm_is_run_as_a_module_of_its_own_interpreter() -> None:
    argv, _ = built()
    assert argv[:3] == ["/engine/bin/python", "-m", "vllm.entrypoints.openai.api_server"]
    assert value(argv, "--model") == "/models/tiny"
    assert value(argv, "--served-model-name") == "tiny"
    assert (value(argv, "--host"), value(argv, "--port")) == ("127.0.0.1", "18000")
    assert value(argv, "--shutdown-timeout") == "40"
    assert value(argv, "--dtype") == "float32"
    assert "--enable-per-request-metrics" in argv
    assert "--enable-prompt-tokens-details" in argv


@pytest.mark.parametrize(
    ("role", "kv_role"),
    [(Role.PREFILL, "kv_producer"), (Role.DECODE, "kv_consumer"), (Role.BOTH, "kv_both")],
)
def test_the_connector_speaks_the_role(role: Role, kv_role: str) -> None:
    argv, env = built(pool=replace(POOL, role=role))
    config = json.loads(value(argv, "--kv-transfer-config"))
    assert config["kv_connector"] == "NixlConnector"
    assert config["kv_role"] == kv_role
    assert config["kv_buffer_device"] == "cpu"
    assert config["kv_connector_extra_config"]["kv_lease_duration"] == 10
    assert env["VLLM_NIXL_SIDE_CHANNEL_HOST"] == "127.0.0.1"
    assert env["VLLM_NIXL_SIDE_CHANNEL_PORT"] == "18100"


def test_the_environment_names_the_owner_and_the_place() -> None:
    _, env = built()
    assert env["VLLM_PROCESS_NAME_PREFIX"] == "pd-prefill-0-01234567"
    assert env["VLLM_CPU_OMP_THREADS_BIND"] == "1"
    assert "CUDA_VISIBLE_DEVICES" not in env
    _, env = built(slot=replace(SLOT, core="", device="0,1"))
    assert env["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert "VLLM_CPU_OMP_THREADS_BIND" not in env
    assert not {"VIRTUAL_ENV", "PYTHONPATH"} & env.keys()


def test_the_pool_wins_over_the_engine_and_both_over_us() -> None:
    engine = replace(
        FLEET.engine,
        args=(("max_num_seqs", 8), ("enable-per-request-metrics", False)),
        env=(("UCX_TLS", "tcp"), ("A", "engine")),
    )
    pool = replace(POOL, args=(("--max-num-seqs", 4),), env=(("A", "pool"),))
    argv, env = built(replace(FLEET, engine=engine), pool)
    assert value(argv, "--max-num-seqs") == "4"
    assert "--no-enable-per-request-metrics" in argv
    assert "--enable-per-request-metrics" not in argv
    assert (env["UCX_TLS"], env["A"]) == ("tcp", "pool")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("enforce-eager", True), ["--enforce-eager"]),
        (("enable-prefix-caching", False), ["--no-enable-prefix-caching"]),
        (("seed", -1), ["--seed=-1"]),
        (("gpu-memory-utilization", 0.8), ["--gpu-memory-utilization", "0.8"]),
    ],
)
def test_values_become_words(given: tuple[str, ArgValue], words: list[str]) -> None:
    argv, _ = built(pool=replace(POOL, args=(given,)))
    at = argv.index(words[0])
    assert argv[at : at + len(words)] == words


@pytest.mark.parametrize("name", ["port", "--host", "kv_transfer_config", "model"])
def test_what_names_the_instance_is_ours_alone(name: str) -> None:
    with pytest.raises(OperatorError, match="is decided by pdctl"):
        built(pool=replace(POOL, args=((name, "x"),)))


def test_a_simulated_engine_understands_its_command() -> None:
    engine = EngineSpec(kind="simulated", args=(("speed", 10.0), ("with-engine-core", True)))
    argv, _ = built(replace(FLEET, engine=engine))
    assert argv[:3] == [sys.executable, "-m", "pdctl.simulated"]
    options = parse(argv[3:])
    assert (options.port, options.side_channel_port, options.shutdown_timeout) == (18000, 18100, 40)
    assert options.with_engine_core
    assert (options.config.model_name, options.config.role) == ("tiny", "prefill")
    assert (options.config.kv_lease_duration, options.config.speed) == (10.0, 10.0)
    assert options.config.enable_per_request_metrics


def test_secrets_are_masked() -> None:
    argv, env = redact(
        ["vllm", "--api-key", "abc", "--hf-token=abc", "--max-num-batched-tokens", "8"],
        [("HF_TOKEN", "abc"), ("A", "Bearer abc"), ("HF_HUB_OFFLINE", "1")],
    )
    assert argv == ["vllm", "--api-key", "***", "--hf-token=***", "--max-num-batched-tokens", "8"]
    assert env == {"HF_TOKEN": "***", "A": "Bearer ***", "HF_HUB_OFFLINE": "1"}


def test_elastic_pools_launch_the_same_whatever_their_role() -> None:
    elastic = replace(POOL, elastic=True)
    other = replace(elastic, name=PoolName("decode"), role=Role.DECODE)
    assert built(pool=elastic) == built(pool=other)
    config = json.loads(value(built(pool=elastic)[0], "--kv-transfer-config"))
    assert config["kv_role"] == "kv_both"
    assert fingerprint(FLEET, elastic) == fingerprint(FLEET, other)
    assert fingerprint(FLEET, elastic) != fingerprint(FLEET, POOL)


def test_our_own_looks_are_kept_out_of_the_access_log() -> None:
    quiet = value(built()[0], "--disable-access-log-for-endpoints").split(",")
    assert {"/health", "/metrics", "/version", "/v1/models"} <= set(quiet)


@pytest.mark.parametrize("kind", ["vllm", "simulated"])
def test_a_pool_that_publishes_does_so_at_addresses_of_this_start(kind: str) -> None:
    pool = replace(POOL, kv_events=True)
    fleet = replace(FLEET, engine=EngineSpec(kind=kind, python="/engine/bin/python"))
    argv, _ = built(fleet, pool)
    config = json.loads(value(argv, "--kv-events-config"))
    assert config == {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": f"ipc://@pdctl-{NONCE}-events",
        "replay_endpoint": f"ipc://@pdctl-{NONCE}-replay",
    }
    assert "--kv-events-config" not in built(fleet)[0]
    assert fingerprint(fleet, pool) != fingerprint(fleet, POOL)
    if kind == "simulated":
        assert json.loads(parse(argv[3:]).config.kv_events_config) == config

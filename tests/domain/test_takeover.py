"""Which engine may become an instance, and why another may not."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pdctl.domain.errors import ConflictError
from pdctl.domain.instance import Slot
from pdctl.domain.orphans import Family, Found, Kind, Process, Shim
from pdctl.domain.placement import Holding
from pdctl.domain.takeover import fit, flags_of
from pdctl.domain.topology import ConnectorSpec, FleetSpec, Mode
from tests.fakes.fleets import fleet

SIMULATED = (
    "python", "-m", "pdctl.simulated", "--port", "18005", "--side-channel-port=18105",
    "--role", "decode", "--shutdown-timeout", "7",
)  # fmt: skip
KV = json.dumps({"kv_connector": "NixlConnector", "kv_role": "kv_consumer"})
VLLM = (
    "python", "-m", "vllm.entrypoints.openai.api_server", "--model", "models/tiny",
    "--served-model-name", "tiny", "--port", "18005", "--kv_transfer_config", KV,
)  # fmt: skip


def found(
    words: tuple[str, ...] = SIMULATED, *, ports: tuple[int, ...] = (18005, 18105),
    shim: Shim | None = None, kind: Kind = Kind.FOREIGN, **env: str,
) -> Found:  # fmt: skip
    leader = Process(10, 100, 1, 10, words, ports=ports, env=tuple(env.items()))
    return Found(Family(leader, (leader,), shim), kind, "It is somebody's.", "decode-9")


def test_it_is_taken_on_its_own_ports() -> None:
    spec = fleet()
    held = [Holding("decode-0", "decode", Slot(0, 18001, 18101))]
    assert fit(found(), spec, spec.pools[1], held).slot == Slot(1, 18005, 18105)
    assert fit(found(), spec, spec.pools[1], held).shutdown_timeout_s == 7


def vllm_fleet() -> FleetSpec:
    spec = fleet()
    return replace(
        spec, model="models/tiny", engine=replace(spec.engine, kind="vllm"),
        connector=ConnectorSpec(),
    )  # fmt: skip


def test_a_vllm_is_read_from_its_command_line_and_environment() -> None:
    spec = vllm_fleet()
    one = found(VLLM, VLLM_NIXL_SIDE_CHANNEL_PORT="18105", CUDA_VISIBLE_DEVICES="3")
    flags = flags_of(one.family)
    assert (flags.served, flags.port, flags.side_channel) == ("tiny", 18005, 18105)
    assert (flags.connector, flags.kv_role) == ("NixlConnector", "kv_consumer")
    pool = replace(spec.pools[1], devices=("2", "3"))
    assert fit(one, spec, pool, []).slot == Slot(1, 18005, 18105, "3")
    with pytest.raises(ConflictError, match="may use devices 4, 5"):
        fit(one, spec, replace(pool, devices=("4", "5")), [])
    taken = [Holding("x", "other", Slot(0, 1, 2, "3"))]
    with pytest.raises(ConflictError, match="x has 3 already"):
        fit(one, spec, pool, taken)


def test_a_served_model_may_be_the_word_after_serve() -> None:
    family = found(("vllm", "serve", "models/tiny", "--port=1")).family
    assert flags_of(family).served == "models/tiny"


@pytest.mark.parametrize(
    ("one", "code"),
    [
        (found(kind=Kind.ADOPTED), "adopted_already"),
        (found(shim=Shim(9, "/other/run", "n")), "supervised"),
        (found(("VLLM::EngineCore",)), "no_server"),
        (found(VLLM), "other_kind"),
        (found((*SIMULATED, "--served-model-name", "big")), "other_model"),
        (found((*SIMULATED, "--no-kv-connector")), "no_connector"),
        (found((*SIMULATED, "--role", "prefill")), "other_role"),
        (found((*SIMULATED, "--port", "9999")), "port_outside"),
        (found((*SIMULATED, "--side-channel-port", "9999")), "port_outside"),
        (found(ports=()), "not_listening"),
        (found((*SIMULATED, "--block-size", "16")), "other_layout"),
    ],
)
def test_it_is_refused_in_a_sentence(one: Found, code: str) -> None:
    spec = fleet()
    with pytest.raises(ConflictError) as refused:
        fit(one, spec, spec.pools[1], [])
    assert refused.value.code == code
    assert refused.value.message.endswith((".", "kv_both."))


def test_another_layout_may_serve_whole_requests() -> None:
    spec = replace(fleet(), mode=Mode.CHUNKED)
    one = found((*SIMULATED, "--block-size", "16"))
    assert "block-size is 16, not the default" in fit(one, spec, spec.pools[1], []).warning


def test_ports_of_an_instance_are_not_shared() -> None:
    spec = fleet()
    held = [Holding("prefill-0", "prefill", Slot(0, 18001, 18105))]
    with pytest.raises(ConflictError, match="prefill-0 has port"):
        fit(found(), spec, spec.pools[1], held)

"""A connector's laws on NIXL: originals untouched, one token asked, params forwarded whole."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdctl import plugins
from pdctl.connectors import PD_ENDPOINTS, Connector
from pdctl.connectors.nixl import ASK, CONNECTOR, REQUIRED
from pdctl.domain.errors import OperatorError
from pdctl.domain.instance import Endpoint
from pdctl.domain.topology import ConnectorSpec, Role

FIXTURES = Path(__file__).parents[1] / "fixtures"
ENDPOINT = Endpoint("127.0.0.1", 18000, 18100)
PARAMS: dict[str, Any] = {
    "do_remote_prefill": True,
    "do_remote_decode": False,
    "remote_block_ids": [[1, 2, 3]],
    "remote_engine_id": "engine",
    "remote_request_id": "cmpl-x-0-abcdef01",
    "remote_host": "127.0.0.1",
    "remote_port": 18100,
    "tp_size": 1,
    "remote_num_tokens": 300,
    "remote_blocks_expiry_time": None,
    "something_new": {"kept": True},
}
FIELDS = [
    "model", "prompt", "stream", "stream_options", "max_tokens", "max_completion_tokens",
    "max_output_tokens", "min_tokens", "n", "temperature", "unknown_field", "logprobs",
]  # fmt: skip
VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers())
BODIES = st.dictionaries(st.sampled_from(FIELDS), VALUES)


def config(role: Role, spec: ConnectorSpec | None = None) -> dict[str, Any]:
    fragment = CONNECTOR.launch_fragment(spec or ConnectorSpec(), role, ENDPOINT)
    loaded: dict[str, Any] = json.loads(str(dict(fragment.args)["kv-transfer-config"]))
    return loaded


def test_it_is_found_by_name_and_private_modules_are_not() -> None:
    found: Connector = plugins.load(plugins.CONNECTORS, "nixl")
    assert found is CONNECTOR
    with pytest.raises(OperatorError, match="called 'mooncake'"):
        plugins.load(plugins.CONNECTORS, "mooncake")


@pytest.mark.parametrize(
    ("role", "kv_role"),
    [(Role.PREFILL, "kv_producer"), (Role.DECODE, "kv_consumer"), (Role.BOTH, "kv_both")],
)
def test_each_role_has_its_kv_role(role: Role, kv_role: str) -> None:
    assert config(role)["kv_role"] == kv_role


def test_lease_buffer_and_options_reach_vllm_where_it_reads_them() -> None:
    spec = ConnectorSpec(
        lease_s=10,
        buffer_device="cpu",
        options=(("num_threads", 2), ("kv_load_failure_policy", "recompute")),
    )
    assert config(Role.PREFILL, spec) == {
        "kv_connector": "NixlConnector",
        "kv_role": "kv_producer",
        "kv_buffer_device": "cpu",
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {"kv_lease_duration": 10, "num_threads": 2},
    }


def test_the_side_channel_is_the_endpoints_own() -> None:
    fragment = CONNECTOR.launch_fragment(ConnectorSpec(), Role.DECODE, ENDPOINT)
    assert dict(fragment.env) == {
        "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1",
        "VLLM_NIXL_SIDE_CHANNEL_PORT": "18100",
    }


@settings(max_examples=60, deadline=None)
@given(body=BODIES, endpoint=st.sampled_from(PD_ENDPOINTS))
def test_prefill_asks_for_one_token_and_no_stream(body: dict[str, Any], endpoint: str) -> None:
    before = copy.deepcopy(body)
    leg = CONNECTOR.prefill_body(body, endpoint)
    assert body == before
    assert leg["stream"] is False
    assert leg["kv_transfer_params"] == ASK
    assert "stream_options" not in leg
    assert "min_tokens" not in leg
    limit = "max_output_tokens" if endpoint == "/v1/responses" else "max_tokens"
    assert leg[limit] == 1
    if endpoint != "/v1/responses":
        assert leg.get("max_completion_tokens", 1) == 1
        assert leg.get("n", 1) == 1
    else:
        assert leg["store"] is False
    touched = {"stream", "kv_transfer_params", "stream_options", "min_tokens", "max_tokens"}
    touched |= {"max_completion_tokens", "max_output_tokens", "n", "store"}
    assert {k: v for k, v in leg.items() if k not in touched} == {
        k: v for k, v in body.items() if k not in touched
    }


@settings(max_examples=40, deadline=None)
@given(body=BODIES)
def test_decode_is_the_original_plus_the_params(body: dict[str, Any]) -> None:
    before = copy.deepcopy(body)
    leg = CONNECTOR.decode_body(body, PARAMS)
    assert leg == {**before, "kv_transfer_params": PARAMS}
    assert body == before


def test_params_come_back_as_the_very_object_that_was_read() -> None:
    assert CONNECTOR.read_params({"id": "x", "kv_transfer_params": PARAMS}) is PARAMS


@pytest.mark.parametrize("name", REQUIRED)
def test_each_required_key_is_missed_by_name(name: str) -> None:
    partial = {key: value for key, value in PARAMS.items() if key != name}
    assert CONNECTOR.read_params({"kv_transfer_params": partial}) == (
        f"prefill's kv_transfer_params lack {name}"
    )


@pytest.mark.parametrize("reply", [{}, {"kv_transfer_params": None}, {"kv_transfer_params": []}])
def test_no_params_is_a_sentence(reply: dict[str, Any]) -> None:
    assert CONNECTOR.read_params(reply) == "prefill answered without kv_transfer_params"


def test_asking_twice_shares_nothing() -> None:
    first = CONNECTOR.prefill_body({}, "/v1/completions")
    first["kv_transfer_params"]["remote_host"] = "changed"
    assert CONNECTOR.prefill_body({}, "/v1/completions")["kv_transfer_params"] == ASK


@pytest.mark.parametrize("name", ["completions", "chat", "responses"])
def test_replies_recorded_from_vllm_carry_params(name: str) -> None:
    reply = json.loads((FIXTURES / f"prefill_{name}.json").read_text())
    assert CONNECTOR.read_params(reply) is reply["kv_transfer_params"]

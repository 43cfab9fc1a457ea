"""A client that leaves frees both engines at once: no lease has to run out for it."""

from __future__ import annotations

import time
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pdctl.connectors.nixl import CONNECTOR
from tests.e2e.live import LiveFleet, wait_for
from tests.e2e.test_handoff import prompt
from tests.e2e.test_messages import record_of

COMPLETIONS = "/v1/completions"
WHERE = ("prefill-0", "decode-0")


def engine(fleet: LiveFleet, id_: str) -> str:
    return f"http://127.0.0.1:{fleet.instance(id_)['http_port']}"


def read(fleet: LiveFleet, id_: str, name: str) -> float:
    """A family of an engine's own metrics, summed."""
    families = text_string_to_metric_families(fleet.http.get(f"{engine(fleet, id_)}/metrics").text)
    found = [one for family in families if family.name == name for one in family.samples]
    assert found, name
    return sum(one.value for one in found if not one.name.endswith("_created"))


def holds(fleet: LiveFleet, id_: str) -> float:
    """What an engine has running, waiting, or in its KV for anybody."""
    names = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")
    return sum(read(fleet, id_, name) for name in names)


def expired(fleet: LiveFleet) -> float:
    return read(fleet, "prefill-0", "vllm:nixl_num_kv_expired_reqs")


def wait_idle(fleet: LiveFleet) -> None:
    wait_for("both engines idle", lambda: sum(holds(fleet, id_) for id_ in WHERE) == 0, seconds=60)


def test_refused_params_free_the_kv_on_prefill(fleet: LiveFleet) -> None:
    """What the router does when a client leaves between the legs, done here by hand."""
    wait_idle(fleet)
    before = expired(fleet)
    body = {"model": "tiny", "prompt": prompt(600, salt=1201), "max_tokens": 8}
    asked = CONNECTOR.prefill_body(body, COMPLETIONS)
    reply = fleet.http.post(f"{engine(fleet, 'prefill-0')}{COMPLETIONS}", json=asked)
    assert reply.status_code == 200, reply.text
    assert holds(fleet, "prefill-0") > 0
    params = CONNECTOR.read_params(reply.json())
    assert isinstance(params, dict), params
    refused = {**CONNECTOR.decode_body(body, params), "model": "pdctl-releases-kv"}
    begun = time.monotonic()
    reply = fleet.http.post(f"{engine(fleet, 'decode-0')}{COMPLETIONS}", json=refused)
    assert reply.status_code == 404
    wait_idle(fleet)
    # Had the lease ended it, this would be counted, and would have taken that long.
    assert expired(fleet) == before, f"after {time.monotonic() - begun:.1f} s"


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_one_that_leaves_while_decode_works_is_aborted_there(
    fleet: LiveFleet, stream: bool
) -> None:
    wait_idle(fleet)
    before = expired(fleet)
    body: dict[str, Any] = {
        "model": "tiny", "prompt": prompt(300, salt=1202 + stream), "max_tokens": 6000,
        "ignore_eos": True, "stream": stream,
    }  # fmt: skip
    id_ = f"leaves-{stream}"
    client = httpx2.Client(timeout=120, headers={"X-Request-Id": id_})
    if stream:
        with client.stream("POST", f"{fleet.router}{COMPLETIONS}", json=body) as answer:
            assert next(answer.iter_bytes())
    else:
        with pytest.raises(httpx2.TimeoutException):
            client.post(f"{fleet.router}{COMPLETIONS}", json=body, timeout=3.0)
    client.close()
    wait_idle(fleet)
    record = record_of(fleet, id_)
    assert (record["path"], record["outcome"]) == ("pd", "client_gone")
    assert expired(fleet) == before

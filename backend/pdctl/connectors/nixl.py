"""vLLM's NixlConnector in pull mode: decode reads the KV blocks that prefill holds under a lease.

The edits follow vLLM 0.32 (distributed/kv_transfer/kv_connector/v1/nixl/pull_scheduler.py and the
`protocol.py` of each endpoint); direction is decided per request, by the params alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pdctl.connectors import LaunchFragment
from pdctl.domain.instance import Endpoint
from pdctl.domain.topology import ConnectorSpec, Role

KV_ROLES = {
    Role.PREFILL: "kv_producer",
    Role.DECODE: "kv_consumer",
    Role.BOTH: "kv_both",
}
REQUIRED = (
    "remote_engine_id", "remote_request_id", "remote_host", "remote_port", "tp_size",
    "remote_block_ids",
)  # fmt: skip
"""Without one of these decode recomputes the prompt and still answers 200: nobody would notice."""
ASK = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
_OF_CONFIG = frozenset({"kv_load_failure_policy", "enable_permute_local_kv", "kv_port"})
"""Options that vLLM reads beside `kv_connector_extra_config`, not inside it."""
_DROPPED = frozenset({"stream_options", "min_tokens"})
"""stream_options is a 400 without stream; min_tokens above max_tokens is one too."""


class NixlConnector:
    """The pull-mode NIXL protocol."""

    name = "nixl"

    def launch_fragment(
        self, spec: ConnectorSpec, role: Role, endpoint: Endpoint
    ) -> LaunchFragment:
        """`--kv-transfer-config` and the side channel where peers ask for NIXL metadata."""
        options = dict(spec.options)
        config: dict[str, Any] = {
            "kv_connector": "NixlConnector",
            "kv_role": KV_ROLES[role],
            "kv_buffer_device": spec.buffer_device,
            **{name: value for name, value in options.items() if name in _OF_CONFIG},
            "kv_connector_extra_config": {
                "kv_lease_duration": spec.lease_s,
                **{name: value for name, value in options.items() if name not in _OF_CONFIG},
            },
        }
        return LaunchFragment(
            args=(("kv-transfer-config", json.dumps(config)),),
            env=(
                ("VLLM_NIXL_SIDE_CHANNEL_HOST", endpoint.host),
                ("VLLM_NIXL_SIDE_CHANNEL_PORT", str(endpoint.side_channel_port)),
            ),
        )

    def prefill_body(self, body: Mapping[str, Any], endpoint: str) -> dict[str, Any]:
        """One token, no stream, KV kept for a remote decode."""
        edited = {name: value for name, value in body.items() if name not in _DROPPED}
        edited["stream"] = False
        edited["kv_transfer_params"] = dict(ASK)
        if endpoint == "/v1/responses":
            edited["max_output_tokens"] = 1
            edited["store"] = False  # vLLM never forgets what it stores
            return edited
        edited["max_tokens"] = 1
        if "max_completion_tokens" in edited:
            edited["max_completion_tokens"] = 1
        if "n" in edited:
            edited["n"] = 1
        return edited

    def read_params(self, reply: Mapping[str, Any]) -> dict[str, Any] | str:
        """The six keys that decode needs must be there; everything else passes unread."""
        params = reply.get("kv_transfer_params")
        if not isinstance(params, dict) or not params:
            return "prefill answered without kv_transfer_params"
        missing = [name for name in REQUIRED if params.get(name) is None]
        if missing:
            return f"prefill's kv_transfer_params lack {', '.join(missing)}"
        return params

    def decode_body(self, body: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
        """The client's body as it was, with the params as prefill gave them."""
        return {**body, "kv_transfer_params": params}


CONNECTOR = NixlConnector()

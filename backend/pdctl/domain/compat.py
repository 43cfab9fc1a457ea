"""What two instances must have in common before one may pull the other's KV cache: pure.

Law: ends with different hashes are never probed and never routed as a pair. The hash covers what
vLLM refuses a handshake for (compute_nixl_compatibility_hash in nixl/metadata.py: versions, model,
dtypes, attention backend, speculation, transfer mode), and what it would not notice but answer
wrongly by: other weights, another tokenizer, another chat template. TP size, block size and KV
layout are left to the probe, as vLLM leaves them to the handshake.
"""

from __future__ import annotations

import hashlib
import json

from pdctl.domain.instance import Instance
from pdctl.domain.topology import FleetSpec, PoolSpec, fingerprint

_ARGS = frozenset(
    {
        "attention-backend", "chat-template", "code-revision", "config-format",
        "disable-hybrid-kv-cache-manager", "dtype", "hf-overrides", "kv-cache-dtype",
        "load-format", "model", "model-impl", "quantization", "revision", "speculative-config",
        "tokenizer", "tokenizer-mode", "tokenizer-revision",
    }
)  # fmt: skip
_ENV = frozenset({"VLLM_ATTENTION_BACKEND", "VLLM_MLA_DISABLE"})
_FREE_OPTIONS = frozenset(
    {
        "decoder_kv_blocks_ttl", "enforce_handshake_compat", "engine_ttl", "kv_lease_duration",
        "kv_recompute_threshold", "num_threads", "push_registration_timeout",
    }
)  # fmt: skip
"""Connector options that each end may have as it likes."""


def compat(fleet: FleetSpec, pool: PoolSpec) -> str:
    """Hash of what both ends of a handoff must share; budgets, ports and timeouts are not in it."""
    args = {
        name.lstrip("-").replace("_", "-"): value
        for name, value in (*fleet.engine.args, *pool.args)
    }
    env = dict((*fleet.engine.env, *pool.env))
    inputs = (
        fleet.model, fleet.engine.kind, fleet.engine.python,
        fleet.connector.name, fleet.connector.buffer_device,
        sorted(one for one in fleet.connector.options if one[0] not in _FREE_OPTIONS),
        sorted((name, value) for name, value in args.items() if name in _ARGS),
        sorted((name, value) for name, value in env.items() if name in _ENV),
    )  # fmt: skip
    return hashlib.sha256(json.dumps(inputs, default=str).encode()).hexdigest()[:12]


def derived(fleet: FleetSpec, one: Instance) -> str:
    """The hash of `one`, also where its record is older than the hash; empty when unknown.

    What runs with the very flags that are wanted now has the hash that is wanted now.
    """
    pool = fleet.pool(one.pool)
    if one.compat or pool is None or one.fingerprint != fingerprint(fleet, pool):
        return one.compat
    return compat(fleet, pool)

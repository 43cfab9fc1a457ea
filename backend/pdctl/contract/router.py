"""The router's live settings on the wire."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from pdctl.contract.wire import SCHEMA_VERSION, Wire

PolicyName = Annotated[str, Field(min_length=1, max_length=100)]


MEANINGS = {
    "prefill_policy": "how a prefill instance is chosen",
    "decode_policy": "how a decode instance is chosen, and one that serves whole requests",
    "pd_min_prompt_tokens": "prompt tokens left to compute from which on a request is handed over",
    "max_inflight_per_instance": "requests at one instance at a time",
    "queue_limit": "requests that may wait; beyond that 429",
    "retries": "further attempts before the first byte",
    "slo": "the objective that requests are routed by",
    "admission": "what becomes of a request that is expected to miss it: off, queue or refuse",
}
"""What each setting is that is switched while requests run; the order is that of the faces."""


class KvEventsView(Wire):
    """How the router follows one instance's KV events."""

    instance: str
    why_not: str = ""
    """Why they tell nothing now; empty while they tell what it holds."""
    blocks: int = 0
    """KV blocks that every router worker knows it to hold."""
    gaps: int = 0
    """Times that messages were missing."""
    replays: int = 0
    """Gaps that the engine filled when asked."""
    forgotten: int = 0
    """Gaps that it could not fill: what was known was forgotten."""
    last_event_age_s: float | None = None
    """Seconds since its last event; null: none yet."""


class RouterView(Wire):
    """How new requests are routed now."""

    schema_version: int = SCHEMA_VERSION
    prefill_policy: str
    decode_policy: str
    pd_min_prompt_tokens: int
    """Prompt tokens left to compute (estimated) from which on a request is handed over; 0: all."""
    max_inflight_per_instance: int
    queue_limit: int
    retries: int
    slo: str = ""
    """Name of the objective that requests are routed by; empty: by none."""
    admission: str = "off"
    """What becomes of a request that is expected to miss it: off, queue or refuse."""
    policies: list[str]
    """Names that either policy may have."""
    workers: int
    """Processes that serve the front door; 0: the control plane's own."""
    revision: int
    kv_events: list[KvEventsView] = Field(default_factory=list)
    """By instance, while a policy asks for them."""
    simulated: bool = False
    """The engines of this fleet are simulated: no vLLM serves these requests."""


class RouterPatch(BaseModel):
    """What to switch. Requests that have a route keep it; nothing restarts."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"prefill_policy": "cost", "pd_min_prompt_tokens": 256}]},
    )

    prefill_policy: PolicyName | None = None
    decode_policy: PolicyName | None = None
    pd_min_prompt_tokens: int | None = Field(default=None, ge=0, le=10_000_000)
    max_inflight_per_instance: int | None = Field(default=None, ge=1, le=100_000)
    queue_limit: int | None = Field(default=None, ge=0, le=1_000_000)
    retries: int | None = Field(default=None, ge=0, le=10)
    slo: str | None = Field(default=None, max_length=100)
    """Empty or "none": no objective."""
    admission: Literal["off", "queue", "refuse"] | None = None

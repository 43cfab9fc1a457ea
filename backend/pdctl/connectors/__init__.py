"""KV connectors: everything about one KV protocol in one file, launch flags and body edits alike.

Law: pure. Both leg bodies are new dicts derived from one untouched original; the params that
prefill returns are forwarded as they came, never rebuilt. Connectors know nothing of each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pdctl.domain.instance import Endpoint
from pdctl.domain.topology import ArgValue, ConnectorSpec, Role

PD_ENDPOINTS = ("/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/messages")
"""Endpoints whose requests can be handed from prefill to decode."""


@dataclass(frozen=True, slots=True)
class LaunchFragment:
    """What a connector adds to an instance's command line and environment."""

    args: tuple[tuple[str, ArgValue], ...] = ()
    """vLLM arguments, names without the leading dashes."""
    env: tuple[tuple[str, str], ...] = ()


class Connector(Protocol):
    """One KV protocol, as launch and router must speak it."""

    name: str

    def launch_fragment(
        self, spec: ConnectorSpec, role: Role, endpoint: Endpoint
    ) -> LaunchFragment:
        """Arguments and environment that join an instance at `endpoint` to the connector."""
        ...

    def prefill_body(self, body: Mapping[str, Any], endpoint: str) -> dict[str, Any]:
        """The prefill leg's body: compute the prompt, keep its KV, say where it is."""
        ...

    def read_params(self, reply: Mapping[str, Any]) -> dict[str, Any] | str:
        """The params in a prefill reply, untouched, or a sentence saying what is missing."""
        ...

    def decode_body(self, body: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
        """The decode leg's body: the client's own plus where the prompt's KV is."""
        ...

"""Finished requests on the wire: the record, its legs, its waterfall, its KV bytes."""

from __future__ import annotations

from collections.abc import Mapping

from pdctl.api.views import moment
from pdctl.api.waterfall import spans
from pdctl.contract.resources import LegView, RequestView
from pdctl.control.groups import generates
from pdctl.domain.fleet import Fleet
from pdctl.domain.handoff import Leg, RequestRecord
from pdctl.domain.phases import final_legs


def kv_bytes_per_token(fleet: Fleet) -> dict[str, float]:
    """Bytes pulled per remote token by decode instance, from its own NIXL counters (derived).

    An instance is missing when its counters do not say: then the bytes of a request are unknown.
    """
    return {
        one.id: one.stats.nixl_bytes / one.stats.prompt_tokens_remote
        for one in fleet.instances
        if one.stats and one.stats.nixl_bytes and one.stats.prompt_tokens_remote > 0
    }


def request_view(
    record: RequestRecord, per_token: Mapping[str, float], *, simulated: bool = False
) -> RequestView:
    """One request with its legs and bars; `per_token` is from `kv_bytes_per_token`."""
    by_kind = {leg.kind: leg.instance for leg in final_legs(record)}
    decode = by_kind.get("decode") or by_kind.get("whole") or ""
    return RequestView(
        id=record.id,
        received_at=moment(record.received_at),
        simulated=simulated,
        endpoint=record.endpoint,
        passed_through=not generates(record),
        model=record.model,
        stream=record.stream,
        mode=record.mode,
        path=record.path,
        path_reason=record.path_reason,
        outcome=record.outcome,
        status=record.status,
        error=record.error,
        key=record.key,
        slo_missed=dict(record.slo_missed),
        queued_ms=record.queued_ms,
        params_age_ms=record.params_age_ms,
        ttft_ms=record.ttft_ms,
        tpot_ms=record.tpot_ms,
        e2e_ms=record.e2e_ms,
        prompt_tokens=record.prompt_tokens,
        cached_tokens=record.cached_tokens,
        completion_tokens=record.completion_tokens,
        completion_derived=record.completion_derived,
        remote_tokens=record.remote_tokens,
        kv_bytes=_kv_bytes(record, per_token.get(decode)),
        finish_reason=record.finish_reason,
        retries=record.retries,
        prefill=by_kind.get("prefill", ""),
        decode=decode,
        legs=[leg_view(leg) for leg in record.legs],
        spans=spans(record),
    )


def leg_view(leg: Leg) -> LegView:
    """One attempt at one instance."""
    return LegView(
        kind=leg.kind,
        instance=leg.instance,
        why=leg.why,
        sent_ms=leg.sent_ms,
        headers_ms=leg.headers_ms,
        first_byte_ms=leg.first_byte_ms,
        done_ms=leg.done_ms,
        status=leg.status,
        error=leg.error,
        note=leg.note,
        engine=dict(leg.engine),
    )


def _kv_bytes(record: RequestRecord, per_token: float | None) -> int | None:
    if record.remote_tokens is None or per_token is None:
        return None
    return round(record.remote_tokens * per_token)

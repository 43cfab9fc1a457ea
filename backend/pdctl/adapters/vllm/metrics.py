"""An engine's /metrics text -> EngineStats: pure. Names are vLLM's (v1/metrics/loggers.py, 0.32).

Law: a family that is missing stays at its default (unknown, but for what every engine tells), NaN
counts as missing, DP ranks (label `engine`) are folded into one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from pdctl.domain.instance import EngineStats

_KV_USAGE = "vllm:kv_cache_usage_perc"
_SUMS = {
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:generation_tokens": "generation_tokens",
    "vllm:iteration_tokens_total_count": "iterations",
    "vllm:prefix_cache_queries": "prefix_queries",
    "vllm:prefix_cache_hits": "prefix_hits",
    "vllm:external_prefix_cache_queries": "external_queries",
    "vllm:external_prefix_cache_hits": "external_hits",
    "vllm:nixl_bytes_transferred_sum": "nixl_bytes",
    "vllm:nixl_bytes_transferred_count": "nixl_transfers",
    "vllm:nixl_xfer_time_seconds_sum": "nixl_seconds",
    "vllm:nixl_post_time_seconds_sum": "nixl_post_seconds",
    "vllm:nixl_num_failed_transfers": "nixl_failures",
    "vllm:nixl_num_kv_expired_reqs": "nixl_expired",
    "vllm:nixl_num_notifications_after_expiry": "nixl_late",
    "vllm:num_preemptions": "preemptions",
}
"""Sample name without `_total` -> field; summed over everything."""
_SPLIT = {
    "vllm:prompt_tokens_by_source": {
        "local_compute": "prompt_tokens_local",
        "local_cache_hit": "prompt_tokens_cached",
        "external_kv_transfer": "prompt_tokens_remote",
    },
    "vllm:num_requests_waiting_by_reason": {"deferred": "waiting_deferred"},
    "vllm:num_requests_kv_fetch_by_stage": {
        "waiting_to_start": "fetch_queued",
        "in_progress": "fetch_running",
        "completed_waiting": "fetch_done",
    },
}
"""The same for families that a label divides: value of the label -> field."""
_WANTED = re.compile(rf"\n((?:{'|'.join((*_SUMS, *_SPLIT, _KV_USAGE))})[^\n]*)")
_SAMPLE = re.compile(r"([\w:]+)\s*(?:{(.*)})?\s+(\S+)(?:\s+-?\d+)?\s*")
"""Name, labels, value; perhaps a timestamp."""
_KIND = re.compile(r'(?:^|,)\s*(?:source|reason|stage)="([^"]*)"')
"""The label that divides. None of its values needs escapes; a quote inside a value is escaped."""


def parse(text: str, at: float) -> EngineStats:
    """The stats in one scrape; `at` is its wall time in seconds. ValueError when it is not one."""
    sums: dict[str, float] = {}
    usage: list[float] = []
    for name, labels, value in _samples(text):
        if name == _KV_USAGE:
            usage.append(value)
            continue
        kind = _KIND.search(labels) if name in _SPLIT else None
        field = _SPLIT[name].get(kind[1]) if kind else _SUMS.get(name)
        if field is not None:
            sums[field] = sums.get(field, 0.0) + value
    if not sums and not usage:
        raise ValueError("no metrics of a vLLM engine")
    # Ranks have caches of the same size, so the mean is the share in use of all of them.
    mean = sum(usage) / len(usage) if usage else None
    return EngineStats(at=at, kv_usage=mean, ranks=len(usage), **sums)


def _samples(text: str) -> Iterator[tuple[str, str, float]]:
    """Stem, labels and value of the wanted samples. prometheus_client's parser takes 80 times as
    long (10 ms a page), and hundreds of engines are read every other second."""
    for line in _WANTED.findall(f"\n{text}"):
        sample = _SAMPLE.fullmatch(line)
        if sample is None:
            raise ValueError(f"not a sample: {line[:100]}")
        name, labels, value = sample[1], sample[2] or "", float(sample[3])
        if not math.isnan(value):
            yield _stem(name), labels, value


def _stem(name: str) -> str:
    return name if name in _SUMS else name.removesuffix("_total")

"""What is watched: one rule each, with what it means and the knob to turn.

Law: a rule compares one number with one threshold; a larger number is always worse. Its text names
where the number comes from, and a line that an operator can type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from pdctl.domain.topology import SignalsSpec


class Severity(StrEnum):
    """How much it hurts."""

    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that is watched."""

    name: str
    title: str
    threshold: float
    """The number from which on it is wrong, in `unit`."""
    unit: str
    """share (0..1) | s | x (times) | count"""
    for_s: float
    """How long it must be wrong, seconds, before it fires."""
    severity: Severity
    means: str
    matters: str
    knob: str
    """{subject} is who is concerned."""
    source: str
    clear: float = 1.0
    """Once it fires, it is still wrong at this part of the threshold: a number that swings around
    the threshold is one signal."""
    keep_s: float = 30.0
    """How long it must be well, seconds, before it is resolved."""

    def turn(self, subject: str) -> str:
        """The knob, for the one who is concerned."""
        return self.knob.replace("{subject}", subject)

    def limit(self) -> str:
        """The threshold as people read it."""
        return written(self.threshold, self.unit)


def written(value: float | None, unit: str) -> str:
    """A number of a rule with its unit; a dash when it is not known."""
    if value is None:
        return "—"
    if unit == "share":
        return f"{value * 100:.3g} %"
    return f"{value:.3g} {unit}" if unit == "s" else f"{value:.3g}{'x' if unit == 'x' else ''}"


RECENT_S = 300
"""What happened "lately" happened within so many seconds."""
_W, _C = Severity.WARNING, Severity.CRITICAL
_PROCESS = (
    Rule(
        "crash_loop", "An instance keeps failing", 2, "count", 0, _C,
        "It failed so many times in a row, to start or soon after.",
        "Its pool is smaller than you asked for, and its next attempt comes later and later.",
        "Read the first failure with `pdctl logs {subject} --previous`; correct the flags in "
        "[pools] and `pdctl apply`, then `pdctl clear {subject}`.",
        "pdctl: failed starts in a row",
    ),
    Rule(
        "given_up", "An instance was given up", 1, "count", 0, _C,
        "It failed in a way that trying again cannot cure.",
        "It stays away until somebody acts.",
        "Read why with `pdctl logs {subject} --previous`, correct it, then `pdctl clear "
        "{subject}`.",
        "pdctl: phase failed",
    ),
    Rule(
        "pool_short", "A pool is smaller than desired", 1, "count", 300, _W,
        "So many instances of this pool are wanted and do not serve.",
        "The others carry their share; with none left, requests are refused.",
        "`pdctl status` names them; a start that hangs is begun anew by `pdctl restart INSTANCE`.",
        "pdctl: desired size less ready instances",
    ),
    Rule(
        "not_answering", "An instance does not answer", 10, "s", 0, _C,
        "Neither its health nor its metrics answered for so long.",
        "Requests on it wait; it is passed over while another answers.",
        "Look with `pdctl logs {subject} --follow`; `pdctl restart {subject}` replaces it.",
        "pdctl: /health and /metrics of the engine",
    ),
    Rule(
        "stall", "An engine makes no step", 15, "s", 0, _C,
        "It has requests running and has not stepped for so long: their streams get no token.",
        "A stuck step does not heal; vLLM itself notices after 300 s.",
        "`pdctl restart {subject}` replaces it; one long prompt can be the cause: lower "
        "max-num-batched-tokens in [engine.args].",
        "vllm:iteration_tokens_total, vllm:num_requests_running",
    ),
    Rule(
        "stale_metrics", "Metrics of an instance are old", 30, "s", 0, _W,
        "Its /metrics has not been read for so long.",
        "What is shown of it is old, and rules that need it do not judge it.",
        "Look whether it is overloaded (`pdctl status`) or hangs (`pdctl logs {subject}`).",
        "pdctl: age of the last scrape",
    ),
)  # fmt: skip
_HANDOFF = (
    Rule(
        "silent_recompute", "KV is not handed over: prompts are computed twice", 0.1, "share", 60,
        _W,
        "This share of the requests that this pair handed over in the last 5 minutes did not get "
        "their KV: decode computed the prompt again, and answered all the same.",
        "You pay for prefill twice, and streams on decode are held up by it.",
        "`pdctl truth` has each pair; compare both ends with `pdctl command INSTANCE`. Until it is "
        "cured, `pdctl mode chunked` costs less.",
        "vllm:prompt_tokens_by_source, as `pdctl truth` judges it",
        clear=0.5,
    ),
    Rule(
        "lease_expired", "KV expired before it was pulled", 1, "count", 0, _W,
        "So many requests of the last 5 minutes lost their KV on prefill: decode came too late.",
        "Each was computed twice, and held blocks of prefill for nothing.",
        "Give decode more room (`pdctl resize decode=N`), or raise [connector] lease.",
        "vllm:nixl_num_kv_expired_reqs",
    ),
    Rule(
        "transfer_failed", "KV transfers fail", 1, "count", 0, _W,
        "So many KV transfers to this instance failed in the last 5 minutes.",
        "Each such request waits, and is then computed again or fails.",
        "`pdctl logs {subject}` has NIXL's own words; check UCX_TLS and the network between hosts.",
        "vllm:nixl_num_failed_transfers",
    ),
    Rule(
        "pair_failing", "A pair cannot hand over", 1, "count", 30, _W,
        "Its probe failed, or real requests on it did.",
        "It takes no traffic; while others work, they carry its load.",
        "`pdctl status` says why; `pdctl restart` of its decode end makes a fresh connection.",
        "pdctl: probes and requests in a row that failed",
    ),
)  # fmt: skip
_LOAD = (
    Rule(
        "kv_nearly_full", "KV cache is nearly full", 0.95, "share", 30, _W,
        "This share of its KV blocks is in use.",
        "Soon requests wait for blocks, or are preempted and computed again.",
        "`pdctl resize POOL=N` adds room; max-num-seqs in [engine.args] lowers what it takes on; "
        "the cost policy avoids it: `pdctl router set decode_policy=cost`.",
        "vllm:kv_cache_usage_perc",
        clear=0.95,
    ),
    Rule(
        "preemptions", "Requests are preempted", 5, "count", 0, _W,
        "So many requests of the last 5 minutes lost their KV to others and were computed again.",
        "Their clients see a pause in the middle of a stream.",
        "Lower max-num-seqs or raise gpu-memory-utilization in [engine.args], or add an instance "
        "with `pdctl resize POOL=N`.",
        "vllm:num_preemptions",
    ),
    Rule(
        "imbalance", "One instance carries much more than its pool", 2, "x", 60, _W,
        "It has so many times the open requests of the others of its pool, on average.",
        "Its clients wait while others are idle.",
        "`pdctl router set decode_policy=least_loaded` (or prefill_policy) evens it out. A slow "
        "instance gathers requests too: see `pdctl latency`.",
        "pdctl: open legs by instance",
        clear=0.75,
    ),
    Rule(
        "queue_backing_up", "Requests wait at the front door", 10, "count", 15, _W,
        "So many requests wait for an instance.",
        "Waiting counts as time to first token, and a full line answers 429.",
        "`pdctl resize POOL=N` adds room; max_inflight_per_instance lets each take more: "
        "`pdctl router set max_inflight_per_instance=N`.",
        "pdctl: the router's line",
        clear=0.5,
    ),
    Rule(
        "circuit_open", "The router leaves an instance alone", 1, "count", 10, _W,
        "It refused a connection, or failed five requests in a row.",
        "One request tries it now and then; the others carry its load.",
        "`pdctl logs {subject}`; `pdctl restart {subject}` replaces it.",
        "pdctl: the router's circuit breaker",
    ),
    Rule(
        "failing_requests", "Requests fail", 0.05, "share", 30, _C,
        "This share of the requests of the last 5 minutes failed for no fault of their client.",
        "Clients see 5xx, 429, timeouts, or streams that break off.",
        "`pdctl requests` names outcome and instance of each; `pdctl requests ID` shows its path.",
        "pdctl: outcomes at the router",
        clear=0.5,
    ),
    Rule(
        "slo_burn", "An objective is being missed", 14.4, "x", 0, _C,
        "Misses use up the budget of this objective so many times as fast as it allows, both over "
        "the last 5 minutes and over the last hour.",
        "At 14.4 times, a month's budget is gone in two days.",
        "`pdctl latency` shows which part is slow: add prefill for TTFT, decode for TPOT "
        "(`pdctl resize POOL=N`). The budget is 1 - objective of [signals].",
        "pdctl: requests that meet [slo.*]; multi-window burn rates: Google SRE Workbook, ch. 5",
        clear=0.5,
    ),
)  # fmt: skip
_MACHINE = (
    Rule(
        "disk_nearly_full", "The disk is nearly full", 0.95, "share", 60, _C,
        "This share of the disk that holds logs and history is in use.",
        "Without room, history is kept in memory and engine logs are cut.",
        "Free space there, or keep less: PDCTL_KEEP_REQUESTS and PDCTL_KEEP_EVENTS.",
        "pdctl: the file system of PDCTL_STATE_DIR",
        clear=0.98,
    ),
    Rule(
        "orphans", "Engines that nobody owns hold this machine", 1, "count", 0, _W,
        "Engine processes run here that no instance owns.",
        "They hold memory, ports and devices that your fleet lacks.",
        "`pdctl orphans` lists them; `pdctl orphans kill KEY` ends one.",
        "pdctl: the process table",
    ),
    Rule(
        "webhook_failing", "The webhook does not take signals", 3, "count", 0, _W,
        "So many attempts in a row to hand over signals failed.",
        "Whoever relies on it is not told; up to 1000 notes wait and are sent when it answers.",
        "Check the address that [signals.webhook] names, and what it answers; the detail says why.",
        "pdctl: answers of the webhook",
        keep_s=0,
    ),
)  # fmt: skip
RULES: Mapping[str, Rule] = {rule.name: rule for rule in (*_HANDOFF, *_PROCESS, *_LOAD, *_MACHINE)}
"""Every rule with its defaults."""
BOUNDS = {"share": (0.001, 1.0), "s": (1.0, 86_400.0), "x": (1.0, 1000.0), "count": (1.0, 1e6)}
"""The least and the most that a threshold may be, by unit."""


def in_force(spec: SignalsSpec) -> dict[str, Rule]:
    """The rules that are watched, as the fleet file wants them."""
    if not spec.enabled:
        return {}
    rules = dict(RULES)
    for one in spec.rules:
        if (rule := rules.get(one.name)) is None:
            continue  # of a newer pdctl
        if not one.enabled:
            del rules[one.name]
            continue
        rules[one.name] = replace(
            rule,
            threshold=rule.threshold if one.threshold is None else one.threshold,
            for_s=rule.for_s if one.for_s is None else one.for_s,
            severity=Severity(one.severity) if one.severity else rule.severity,
        )
    return rules

"""Request records with plausible times: what a small fleet under mixed load would tell."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from pdctl.domain.handoff import Leg, Outcome, Path, RequestRecord
from pdctl.domain.histogram import bucket

ENDPOINTS = ("/v1/completions", "/v1/chat/completions", "/v1/responses")
OUTCOMES = (*[Outcome.OK] * 30, *Outcome)


def record(
    rng: Random,
    number: int,
    at: float,
    prefills: tuple[str, ...] = ("prefill-0", "prefill-1"),
    decodes: tuple[str, ...] = ("decode-0", "decode-1", "decode-2"),
) -> RequestRecord:
    """One finished request, received at wall time `at`."""
    path = rng.choices((Path.PD, Path.CHUNKED, Path.AGGREGATED), (8, 2, 1))[0]
    outcome = rng.choice(OUTCOMES)
    base = _base(rng, number, at, path)
    if outcome in (Outcome.OVERLOADED, Outcome.NO_INSTANCE, Outcome.REJECTED):
        return _refused(base, outcome)
    done = (
        _handed_over(rng, base, prefills, decodes)
        if path is Path.PD
        else _whole(rng, base, (*prefills, *decodes))
    )
    return done if outcome is Outcome.OK else _broken(rng, done, outcome)


def _base(rng: Random, number: int, at: float, path: Path) -> RequestRecord:
    prompt = rng.choice((12, 80, 400, 1500, 3000)) + rng.randrange(40)
    return RequestRecord(
        id=f"req-{number:06d}-{rng.getrandbits(32):08x}",
        received_at=at,
        endpoint=rng.choice(ENDPOINTS),
        model="tiny",
        stream=rng.random() < 0.7,
        mode="chunked" if path is Path.CHUNKED else "pd",
        path=path,
        path_reason="n > 1 needs one instance" if path is Path.AGGREGATED else "",
        outcome=Outcome.OK,
        status=200,
        queued_ms=rng.expovariate(1 / 3),
        prompt_tokens=prompt,
        cached_tokens=rng.choice((0, 0, prompt // 2)),
        completion_tokens=rng.randrange(2, 120),
        finish_reason=rng.choice(("stop", "length")),
    )


def _handed_over(
    rng: Random, base: RequestRecord, prefills: tuple[str, ...], decodes: tuple[str, ...]
) -> RequestRecord:
    prompt = base.prompt_tokens or 1
    sent = (base.queued_ms or 0.0) + 0.4
    queue, compute = rng.expovariate(1 / 4), 6 + prompt * 0.2 * rng.uniform(0.8, 1.2)
    answered = sent + queue + compute + rng.uniform(1, 4)
    prefill = Leg(
        "prefill", rng.choice(prefills), "fewest tokens in flight (420)", sent,
        headers_ms=answered - 0.3, first_byte_ms=answered - 0.2, done_ms=answered, status=200,
        engine=(("queue_time_ms", queue), ("time_to_first_token_ms", compute)),
    )  # fmt: skip
    decode_sent = answered + 0.6
    pull, step = 4 + prompt * 0.01 * rng.uniform(0.7, 1.6), rng.uniform(5, 9)
    decode, timed = _answer(rng, base, "decode", rng.choice(decodes), (decode_sent, pull, step))
    return replace(
        timed, params_age_ms=decode_sent - answered, remote_tokens=prompt, legs=(prefill, decode)
    )


def _whole(rng: Random, base: RequestRecord, instances: tuple[str, ...]) -> RequestRecord:
    sent = (base.queued_ms or 0.0) + 0.3
    compute = 8 + (base.prompt_tokens or 1) * 0.22 * rng.uniform(0.8, 1.4)
    leg, timed = _answer(
        rng, base, "whole", rng.choice(instances), (sent, rng.expovariate(1 / 6), compute)
    )
    return replace(timed, legs=(leg,))


def _answer(
    rng: Random,
    base: RequestRecord,
    kind: str,
    instance: str,
    times: tuple[float, float, float],
) -> tuple[Leg, RequestRecord]:
    sent, wait, step = times
    first = sent + wait + step
    tokens = base.completion_tokens or 1
    gaps = [rng.lognormvariate(1.9, 0.4) for _ in range(tokens - 1)]
    last = first + sum(gaps)
    leg = Leg(
        kind, instance, "fewest tokens in flight (96)", sent,
        headers_ms=first - 0.4, first_byte_ms=first if base.stream else last, done_ms=last,
        status=200, engine=(("queue_time_ms", wait - 0.5), ("time_to_first_token_ms", step)),
    )  # fmt: skip
    counts: dict[int, int] = {}
    for gap in gaps:
        counts[bucket(gap)] = counts.get(bucket(gap), 0) + 1
    return leg, replace(
        base,
        ttft_ms=first + 0.2 if base.stream else None,
        tpot_ms=(last - first) / (tokens - 1) if base.stream and tokens > 1 else None,
        e2e_ms=last + 0.3,
        itl=tuple(sorted(counts.items())) if base.stream else (),
    )


def _refused(base: RequestRecord, outcome: Outcome) -> RequestRecord:
    status, error = {
        Outcome.OVERLOADED: (429, "1024 requests are waiting already"),
        Outcome.NO_INSTANCE: (503, "no decode instance is ready"),
        Outcome.REJECTED: (400, "max_tokens must be at least 1, got -3."),
    }[outcome]
    return replace(
        base, path=Path.NONE, outcome=outcome, status=status, error=error, completion_tokens=None,
        finish_reason="", e2e_ms=(base.queued_ms or 0.0) + 0.5,
    )  # fmt: skip


def _broken(rng: Random, done: RequestRecord, outcome: Outcome) -> RequestRecord:
    status, error = {
        Outcome.CLIENT_GONE: (499, "the client hung up"),
        Outcome.UPSTREAM_ERROR: (502, "connection to the instance was refused"),
        Outcome.TIMEOUT: (504, "no first byte within 600 s"),
        Outcome.TRUNCATED: (200, "the instance died after 17 tokens"),
    }[outcome]
    *before, last = done.legs
    cut = last.sent_ms + ((last.done_ms or last.sent_ms) - last.sent_ms) * rng.uniform(0.1, 0.9)
    seen = outcome in (Outcome.CLIENT_GONE, Outcome.TRUNCATED) and done.ttft_ms is not None
    kept = seen and (done.ttft_ms or 0.0) < cut
    broken = replace(
        last, done_ms=cut, error="" if outcome is Outcome.CLIENT_GONE else error,
        first_byte_ms=last.first_byte_ms if kept else None, engine=(),
    )  # fmt: skip
    return replace(
        done, outcome=outcome, status=status, error=error, finish_reason="", e2e_ms=cut + 0.2,
        ttft_ms=done.ttft_ms if kept else None, tpot_ms=None, itl=done.itl if kept else (),
        completion_tokens=None, legs=(*before, broken), retries=int(rng.random() < 0.3),
    )  # fmt: skip

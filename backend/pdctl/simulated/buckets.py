"""vLLM's histogram boundaries, so that histograms of simulated and real engines merge exactly.

Source: vLLM 0.32, v1/metrics/buckets.py and the NIXL connector's stats.py.
"""

from __future__ import annotations

LATENCY = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0,
    120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0,
)  # fmt: skip
"""Seconds: end to end, queue, inference, prefill, decode."""
FIRST_TOKEN = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5,
    10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
"""Seconds to the first token."""
TOKEN_GAP = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5,
    10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
"""Seconds between tokens, and per output token of a request."""
STEP_TOKENS = (1.0, *(float(2**power) for power in range(3, 15)))
"""Tokens in one step."""
PARAM_N = (1.0, 2.0, 5.0, 10.0, 20.0)
PREEMPTIONS = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0)
NIXL_POST = (0.001, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 5.0)
"""Seconds to post a transfer."""
NIXL_TRANSFER = NIXL_POST[1:]
"""Seconds of a transfer."""
NIXL_BYTES = tuple(float(2 ** (10 + power)) for power in range(1, 25, 2))
NIXL_DESCRIPTORS = (
    10.0, 20.0, 30.0, 50.0, 75.0, 100.0, 200.0, 400.0, 1e3, 2e3, 4e3, 1e4, 2e4, 5e4,
)  # fmt: skip


def request_tokens(max_model_len: int) -> tuple[float, ...]:
    """The 1-2-5 series up to the longest request."""
    bounds: list[float] = []
    scale = 1
    while True:
        for step in (1, 2, 5):
            if step * scale > max_model_len:
                return tuple(bounds)
            bounds.append(float(step * scale))
        scale *= 10

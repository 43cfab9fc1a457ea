"""What the router adds to a request, beside the engines alone, vLLM's router, and a minimal proxy.

Engines, routers and load each run in a process of their own. Rounds of the ways are interleaved, so
that a busy machine hurts all alike: read the ratios and the CPU time (which waiting for a core does
not lengthen) rather than the milliseconds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.load import Way, direct, measure, through
from benchmarks.processes import STEP_S, Child
from benchmarks.rust_router import PACKAGE, Missing, RustRouter, find

SCENES = {
    "instant": "engines in which nothing takes time",
    "paced": f"engines with a step of {STEP_S * 1000:.0f} ms",
}
CLIENTS = (1, 32, 128)
SECONDS = {"instant": 1.0, "paced": 2.0}
"""Of each measurement."""
NAMES = {
    "direct": "direct", "peer": "plain aiohttp proxy", "vllm-router": PACKAGE.replace("==", " "),
    "pdctl": "pdctl",
}  # fmt: skip
Rounds = list[dict[str, float]]


async def compare(
    ways: dict[str, Way], clients: int, rounds: int, seconds: float
) -> dict[str, Rounds]:
    """Interleaved rounds of every way."""
    found: dict[str, Rounds] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            found[name].append(await measure(way, clients, seconds))
    return found


def medians(rounds: Rounds) -> dict[str, float]:
    """Each figure's median over the rounds."""
    return {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}


HEAD = (
    "clients", "way", "TTFT p50", "TTFT p99", "added", "ITL p50", "ITL p99", "requests/s",
    "chunks/s", "of direct", "of the proxy", "CPU s/1000 chunks", "MiB",
)  # fmt: skip


def table(results: dict[str, dict[str, Rounds]]) -> list[str]:
    """The medians of one scene, in Markdown: `results` by clients and way."""
    lines = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    for clients, found in results.items():
        middle = {name: medians(rounds) for name, rounds in found.items()}
        base, peer = middle["direct"], middle["peer"]
        for name, one in middle.items():
            cells = [
                clients, NAMES[name],
                f"{one['ttft_p50_ms']:.2f} ms", f"{one['ttft_p99_ms']:.1f} ms",
                "-" if name == "direct" else f"{one['ttft_p50_ms'] - base['ttft_p50_ms']:+.2f} ms",
                f"{one['itl_p50_ms']:.2f} ms", f"{one['itl_p99_ms']:.1f} ms",
                f"{one['requests_per_s']:.0f}", f"{one['chunks_per_s']:.0f}",
                f"{one['requests_per_s'] / base['requests_per_s']:.2f}",
                f"{one['requests_per_s'] / peer['requests_per_s']:.2f}",
                "-" if name == "direct" else f"{one['cpu_s_per_1000_chunks']:.3f}",
                "-" if name == "direct" else f"{one['rss_mib']:.0f}",
            ]  # fmt: skip
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def play(scene: str, rounds: int, seconds: float) -> tuple[dict[str, dict[str, Rounds]], str]:
    """One scene: (results by clients and way, who was left out and why)."""
    children: list[Child | RustRouter] = []
    left_out = ""
    try:
        engines = Child(scene, ports=2)
        children.append(engines)
        ways = {"direct": Way(direct(*engines.ports))}
        for kind in ("peer", "vllm-router", "pdctl"):
            try:
                rust = kind == "vllm-router"
                child = RustRouter(find(), *engines.ports) if rust else Child(kind, *engines.ports)
            except Missing as error:
                left_out = f"{PACKAGE} is left out: {error}."
                continue
            children.append(child)
            ways[kind] = Way(through(child.ports[0]), child)
        found: dict[str, dict[str, Rounds]] = {}
        for clients in CLIENTS:
            sys.stderr.write(f"{scene}, {clients} clients, {rounds} rounds of {len(ways)} ways\n")
            found[str(clients)] = uvloop.run(compare(ways, clients, rounds, seconds))
    finally:
        for one in children:
            one.stop()
    return found, left_out


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="benchmarks.router", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of the length of a measurement")
    parser.add_argument("--scene", choices=SCENES, help="only this one")
    parser.add_argument("--raw", type=Path, help="write every round to this file, as JSON")
    args = parser.parse_args()
    raw: dict[str, Any] = {"machine": f"{os.cpu_count()} CPUs, {platform.platform()}"}
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    sys.stdout.write(f"{raw['machine']}; load before: {load}\n")
    for scene in [args.scene] if args.scene else SCENES:
        raw[scene], left_out = play(scene, args.rounds, SECONDS[scene] * args.scale)
        words = f"{SCENES[scene]}: medians of {args.rounds} rounds"
        sys.stdout.write("\n".join(["", words, "", *table(raw[scene]), "", left_out]) + "\n")
    if args.raw:
        args.raw.parent.mkdir(parents=True, exist_ok=True)
        args.raw.write_text(json.dumps(raw, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

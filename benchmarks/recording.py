"""What a record of every request costs the router: its CPU with records, and without, in one run.

A record is made, queued and read in the router's process. The times it is made of are taken in
both: the router's own histograms are of them.
"""

from __future__ import annotations

import argparse
import statistics
import sys

import uvloop

from benchmarks.load import Way, through
from benchmarks.processes import Child
from benchmarks.router import compare

CLIENTS, SECONDS = 32, 1.0
FIGURE = "cpu_ms_per_request"


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="benchmarks.recording", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    children = [engines := Child("instant", ports=2)]
    try:
        ways = {}
        for kind in ("unrecorded", "pdctl"):
            children.append(child := Child(kind, *engines.ports))
            ways[kind] = Way(through(child.ports[0]), child)
        found = uvloop.run(compare(ways, CLIENTS, args.rounds, SECONDS))
    finally:
        for child in children:
            child.stop()
    without, with_records = ([one[FIGURE] for one in found[kind]] for kind in ways)
    ratios = [b / a for a, b in zip(without, with_records, strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    sys.stdout.write(
        f"CPU a request: {statistics.median(without):.3f} ms without records, "
        f"{statistics.median(with_records):.3f} ms with; ratio of neighbouring rounds "
        f"{statistics.median(ratios):.3f} (quartiles {low:.3f} to {high:.3f}, {len(ratios)})\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

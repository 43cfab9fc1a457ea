"""Counters, gauges and histograms that render as prometheus_client would, at a tenth of the cost.

One engine owns one `Registry`; hundreds of engines are scraped every second, so series are plain
objects with their label text made once. A test holds the output against prometheus_client itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from prometheus_client import utils

Labels = Mapping[str, str]
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def label_text(labels: Labels) -> str:
    """`{a="1",b="2"}` sorted by name, or nothing without labels."""
    if not labels:
        return ""
    pairs = (f'{name}="{labels[name].translate(_ESCAPES)}"' for name in sorted(labels))
    return "{" + ",".join(pairs) + "}"


class Counter:
    """A number that only grows."""

    __slots__ = ("labels", "value")

    def __init__(self, labels: Labels) -> None:
        self.labels = label_text(labels)
        self.value = 0.0

    def add(self, amount: float = 1.0) -> None:
        """Grow by `amount`."""
        self.value += amount


class Gauge:
    """A number read from `source` when the page is rendered."""

    __slots__ = ("labels", "source")

    def __init__(self, labels: Labels, source: Callable[[], float]) -> None:
        self.labels = label_text(labels)
        self.source = source


class Histogram:
    """Counts per bucket and a sum."""

    __slots__ = ("bounds", "bucket_labels", "counts", "labels", "total")

    def __init__(self, labels: Labels, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        self.labels = label_text(labels)
        edges = (*map(number, bounds), "+Inf")
        self.bucket_labels = tuple(label_text({**labels, "le": edge}) for edge in edges)

    def observe(self, value: float) -> None:
        """Count one `value`."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        """How many values were observed."""
        return sum(self.counts)


class Registry:
    """The families of one engine, in the order in which they were made."""

    def __init__(self, created: float) -> None:
        """`created` is the epoch second that every `_created` series shows."""
        self.created = number(created)
        self.families: list[tuple[str, str, list[Counter] | list[Gauge] | list[Histogram]]] = []

    def counters(self, name: str, doc: str, label_sets: Iterable[Labels]) -> list[Counter]:
        """A counter family `name` (without `_total`), one series per label set."""
        series = [Counter(labels) for labels in label_sets]
        self.families.append((name, doc, series))
        return series

    def gauges(
        self, name: str, doc: str, sources: Iterable[tuple[Labels, Callable[[], float]]]
    ) -> None:
        """A gauge family, each series with the function that reads it."""
        self.families.append((name, doc, [Gauge(*source) for source in sources]))

    def histogram(
        self, name: str, doc: str, labels: Labels, bounds: tuple[float, ...]
    ) -> Histogram:
        """A histogram family of one series."""
        series = Histogram(labels, bounds)
        self.families.append((name, doc, [series]))
        return series

    def render(self) -> str:
        """The page in text format 0.0.4."""
        return render([self])


def render(registries: Sequence[Registry]) -> str:
    """One page of registries that were made alike, each family once with the series of all."""
    lines: list[str] = []
    for families in zip(*(one.families for one in registries), strict=True):
        name, doc, _ = families[0]
        series: Any = [one for family in families for one in family[2]]
        _render_family(lines, name, doc, series, registries[0].created)
    return "\n".join(lines) + "\n"


def _render_family(
    lines: list[str],
    name: str,
    doc: str,
    series: list[Counter] | list[Gauge] | list[Histogram],
    created: str,
) -> None:
    first = series[0]
    kind = type(first).__name__.lower()
    shown = f"{name}_total" if kind == "counter" else name
    lines += (f"# HELP {shown} {doc}", f"# TYPE {shown} {kind}")
    for one in series:
        if isinstance(one, Counter):
            lines.append(f"{shown}{one.labels} {number(one.value)}")
        elif isinstance(one, Gauge):
            lines.append(f"{shown}{one.labels} {number(one.source())}")
        else:
            _render_buckets(lines, name, one)
    if kind != "gauge":
        lines += (f"# HELP {name}_created {doc}", f"# TYPE {name}_created gauge")
        lines += [f"{name}_created{one.labels} {created}" for one in series]


def _render_buckets(lines: list[str], name: str, histogram: Histogram) -> None:
    running = 0
    for labels, count in zip(histogram.bucket_labels, histogram.counts, strict=True):
        running += count
        lines.append(f"{name}_bucket{labels} {number(running)}")
    lines.append(f"{name}_count{histogram.labels} {number(running)}")
    lines.append(f"{name}_sum{histogram.labels} {number(histogram.total)}")


def number(value: float) -> str:
    """A float as prometheus_client writes it: `1.0`, and `1.5e+06` from a million on."""
    return str(utils.floatToGoString(value))  # type: ignore[no-untyped-call]

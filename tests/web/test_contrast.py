"""Every text colour is readable on what it lies on (WCAG 2.2 AA), in both themes."""

from __future__ import annotations

import re

import pytest

from pdctl.web.assets import STATIC

CSS = (STATIC / "console.css").read_text(encoding="utf-8")
BLOCKS = re.findall(r":root[^{]*\{([^}]*--bg[^}]*)\}", CSS)
WORDS = ("ok", "busy", "warn", "bad", "idle")


def colours(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", block))


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_dark_theme_is_the_same_by_choice_and_by_preference() -> None:
    assert len(BLOCKS) == 3
    assert colours(BLOCKS[1]) == colours(BLOCKS[2])


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_is_readable(theme: int) -> None:
    c = colours(BLOCKS[0]) | (colours(BLOCKS[1]) if theme else {})
    pairs = [
        (name, ground)
        for name in ("text", "muted", "accent", "pd", "chunked", *WORDS)
        for ground in ("panel", "bg")
    ]
    pairs += [(name, f"{name}-soft") for name in WORDS]
    pairs += [("text", "sunk"), ("muted", "sunk"), ("bad", "sunk"), ("warn", "sunk")]
    pairs += [("accent", "accent-soft"), ("top-text", "top"), ("top-muted", "top")]
    weak = [(a, b, round(contrast(c[a], c[b]), 2)) for a, b in pairs if contrast(c[a], c[b]) < 4.5]
    assert not weak


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_marks_and_edges_can_be_seen(theme: int) -> None:
    c = colours(BLOCKS[0]) | (colours(BLOCKS[1]) if theme else {})
    names = ("line-strong", "bar", "prefill", "transfer", "decode", "pd", "chunked")
    seen = {name: round(contrast(c[name], c["panel"]), 2) for name in names}
    weak = {name: ratio for name, ratio in seen.items() if ratio < 3}
    assert not weak
    assert contrast("#ffffff", "#0a58b0") >= 4.5
    assert contrast("#ffffff", "#b3201b") >= 4.5

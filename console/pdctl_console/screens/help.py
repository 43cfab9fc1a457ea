"""Help that is true: made from the bindings themselves."""

from __future__ import annotations

from textual.actions import parse
from textual.app import App
from textual.dom import DOMNode
from textual.screen import Screen

from pdctl_console.styled import Line, plain, told

_KEYS = {
    "question_mark": "?", "slash": "/", "escape": "Esc", "enter": "Enter", "space": "Space",
    "pageup": "PgUp", "pagedown": "PgDn", "home": "Home", "end": "End", "up": "↑", "down": "↓",
    "left": "←", "right": "→", "backspace": "Backspace",
    "greater_than_sign": ">", "colon": ":", "plus": "+", "minus": "-", "equals_sign": "=",
}  # fmt: skip
_NOISE = {"tab", "shift+tab", "ctrl+c", "super+c", "ctrl+q"}
_ABOUT: tuple[Line, ...] = (
    told("Words", "strong"),
    plain("  Load     requests that the router has sent there and not yet seen end"),
    plain("  KV use   share of the engine's KV cache in use"),
    plain("  KV in    prompt tokens whose KV came from a prefill instance"),
    plain("  ●◔✗ …    a state's sign; its word stands beside it"),
    plain("  ~ ▒      derived, not measured          —  not known"),
)


def help_lines(screen: Screen[object], app: App[int]) -> list[Line]:
    """Every key that works here now, and what the columns mean."""
    focused = screen.focused
    lines = _section("This screen", screen, type(screen).BINDINGS, app)
    lines += _section("Everywhere", app, app.BINDINGS, app)
    lines += [
        plain("  Ctrl+P        palette: themes, screenshot"),
        plain("  Tab           next panel"),
    ]
    if focused is not None:
        lines += [(), *_section("In the list", focused, type(focused).BINDINGS, app)]
    return [*lines, *_ABOUT]


def _section(title: str, node: DOMNode, own: object, app: App[int]) -> list[Line]:
    names: dict[str, list[str]] = {}
    for key, bindings in node._bindings.key_to_bindings.items():  # noqa: SLF001 - no public list
        for binding in bindings:
            described = binding.description and not binding.system and key not in _NOISE
            if described and binding in _flat(own) and _works(binding.action, app):
                names.setdefault(binding.description, []).append(_name(key))
    rows = [plain(f"  {', '.join(keys):<14}{said}") for said, keys in names.items()]
    return [told(title, "strong"), *rows, ()] if rows else []


def _flat(own: object) -> list[object]:
    from textual.binding import Binding

    return list(Binding.make_bindings(own))  # type: ignore[arg-type]


def _works(action: str, app: App[int]) -> bool:
    _, name, given = parse(action)
    return app.check_action(name, given) is not False


def _name(key: str) -> str:
    if key.startswith("ctrl+"):
        return f"Ctrl+{key.removeprefix('ctrl+').upper()}"
    return _KEYS.get(key, key)

"""A verb in the words of the command line, read into what it asks for. Pure.

The grammar is that of `pdctl`; `tests/rules` reads every ask's own words back.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

from pdctl.contract import asks
from pdctl.contract.asks import Ask
from pdctl.domain.change import Change, parse
from pdctl.domain.errors import OperatorError
from pdctl.domain.topology import Mode

_SPAN = re.compile(r"(\d{1,6})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_CODE = "bad_command"


def split(text: str) -> list[str]:
    """The words of a line, quoted as in a shell; a leading `pdctl` may be left out."""
    try:
        words = shlex.split(text)
    except ValueError:
        raise OperatorError(_CODE, "A quote is not closed.", "Close it, or leave it out.") from None
    return words[1:] if words[:1] == ["pdctl"] else words


def read(words: Sequence[str]) -> Ask:
    """What the words ask for; OperatorError says what is wrong, and how it is written."""
    for length in (2, 1):
        name = " ".join(words[:length])
        if len(words) >= length and name in FORMS:
            usage, take = FORMS[name]
            return take(_Rest(f"{name} {usage}".rstrip(), list(words[length:])))
    raise OperatorError(
        _CODE, f"There is no verb {words[0]!r}." if words else "Nothing was asked for.",
        meant(" ".join(words[:1]), sorted(FORMS)),
    )  # fmt: skip


def meant(word: str, known: Sequence[str]) -> str:
    """What may have been meant by `word`, and else what there is."""
    close = get_close_matches(word, known, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(known)}."


class _Rest:
    """The words after a verb."""

    def __init__(self, usage: str, words: list[str]) -> None:
        self._usage, self.words = usage, words

    def wrong(self, said: str) -> OperatorError:
        """The words are not how the verb is written."""
        return OperatorError(_CODE, said, f"Write: {self._usage}")

    def options(self, *names: str) -> Mapping[str, str]:
        """Take `--name value` out, for these names."""
        found: dict[str, str] = {}
        left: list[str] = []
        words = iter(self.words)
        for word in words:
            name, sign, value = word.removeprefix("--").partition("=")
            if not word.startswith("--"):
                left.append(word)
            elif name not in names:
                raise self.wrong(f"{word} is not understood: a change is shown before it is done.")
            elif not (value := value if sign else next(words, "")):
                raise self.wrong(f"--{name} needs a value.")
            else:
                found[name] = value
        self.words = left
        return found

    def one(self) -> str:
        """The only word that is left."""
        self.options()
        if len(self.words) != 1:
            raise self.wrong("One name is needed." if not self.words else "That is too much.")
        return self.words[0]

    def change(self) -> Change:
        """The words as a change; at least one."""
        self.options()
        if not self.words:
            raise self.wrong("Say what to change.")
        return parse(self.words)


def _mode(rest: _Rest) -> Ask:
    wanted = parse([f"mode={rest.one()}"]).mode
    return asks.mode(wanted or Mode.PD)


def _resize(rest: _Rest) -> Ask:
    wanted = rest.change()
    if not wanted.sizes or wanted.mode or wanted.router:
        raise rest.wrong("Only sizes of pools can be given.")
    return asks.resize(dict(wanted.sizes))


def _router(rest: _Rest) -> Ask:
    wanted = rest.change()
    if not wanted.router or wanted.mode or wanted.sizes:
        raise rest.wrong("Only settings of the router can be given.")
    return asks.router(dict(wanted.router))


def _plan(rest: _Rest) -> Ask:
    wanted = rest.change()
    return asks.change(rest.words, wanted)


def _move(rest: _Rest) -> Ask:
    pool = rest.options("role").get("role")
    if pool is None:
        raise rest.wrong("Say where it shall belong.")
    return asks.move(rest.one(), pool)


def _undo(rest: _Rest) -> Ask:
    to = rest.options("to").get("to", "")
    if rest.words or not (to.isascii() and to.isdecimal()):
        raise rest.wrong("Say to which revision.")
    return asks.undo(int(to))


def _silence(rest: _Rest) -> Ask:
    given = rest.options("subject", "for")
    span = _SPAN.fullmatch(given.get("for", "1h"))
    seconds = int(span[1]) * _SECONDS[span[2]] if span else 0
    if not 60 <= seconds <= 30 * 86_400:
        raise rest.wrong("That is no span from 1m to 30d.")
    rule = rest.one() if rest.words else "*"
    return asks.silence(rule, given.get("subject", "*"), seconds)


def _golden(rest: _Rest) -> Ask:
    if rest.words:
        raise rest.wrong("That is too much.")
    return asks.golden()


def _on_one(verb: str) -> Callable[[_Rest], Ask]:
    return lambda rest: asks.on_one(verb, rest.one())


FORMS: dict[str, tuple[str, Callable[[_Rest], Ask]]] = {
    "mode": ("pd|chunked", _mode),
    "resize": ("POOL=SIZE...", _resize),
    "plan": ("POOL=SIZE|mode=MODE|SETTING=VALUE...", _plan),
    **{verb: ("INSTANCE", _on_one(verb)) for verb in asks.ON_ONE},
    "move": ("INSTANCE --role POOL", _move),
    "router set": ("NAME=VALUE...", _router),
    "undo": ("--to REVISION", _undo),
    "apply": ("PLAN", lambda rest: asks.apply(rest.one())),
    "cancel": ("OPERATION", lambda rest: asks.cancel(rest.one())),
    "clear": ("INSTANCE", lambda rest: asks.clear(rest.one())),
    "golden": ("", _golden),
    "mark": ("NAME", lambda rest: asks.mark(rest.one())),
    "signals ack": ("SIGNAL", lambda rest: asks.ack(rest.one())),
    "signals silence": ("[RULE] [--subject WHOM] [--for SPAN]", _silence),
    "signals unsilence": ("ID", lambda rest: asks.unsilence(rest.one())),
}
"""The command, how it goes on, and what reads that."""

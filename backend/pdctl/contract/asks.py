"""What an operator asks for, from any face: the same words, the same call, the same question.

Made by the functions below or read from words as the command line takes them. Pure.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from pdctl.contract.plans import ChangeBody
from pdctl.domain.change import Change
from pdctl.domain.topology import Mode
from pdctl.domain.verbs import VERBS, Verb

CLI_DEFAULTS = ("http://127.0.0.1:8080", "http://localhost:8080")
"""Where the CLI looks when nobody tells it: elsewhere its commands need --url."""
ON_ONE = ("drain", "undrain", "restart", "stop")
"""Changes that name one instance and nothing else."""
SILENCE_S = 3600
"""How long signals are kept quiet, unless somebody says otherwise."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One thing that somebody thinks of, and how the same is said elsewhere."""

    verb: Verb
    title: str
    cli: tuple[str, ...]
    """Words of a shell, `pdctl` first."""
    method: str
    path: str
    """The call of the admin API; where it makes a plan, that is then applied by its id."""
    body: Mapping[str, Any] | None = None
    about: tuple[str, ...] = ()
    """What it names: an instance, an operation, a signal."""
    change: ChangeBody | None = None
    """What is planned, where it is a change of the desired fleet."""
    to_revision: int | None = None
    """The revision to go back to, where that is planned."""

    @property
    def planned(self) -> bool:
        """It becomes a plan before it becomes anything else."""
        return self.change is not None or self.to_revision is not None

    def shell(self, base: str) -> str:
        """The same on the command line, for the pdctl at `base`."""
        return shlex.join([*self.cli, *elsewhere(base)])

    def curl(self, base: str, *, bearer: bool = False) -> str:
        """The same over HTTP; `bearer` where a token is needed."""
        return curl(self.method, base + self.path, self.body, bearer=bearer)


def elsewhere(base: str) -> list[str]:
    """The words that a pdctl command needs to reach the console at `base`."""
    return [] if base in CLI_DEFAULTS else ["--url", base]


def curl(
    method: str, url: str, body: Mapping[str, Any] | None = None, *, bearer: bool = False
) -> str:
    """A call as a line for a shell."""
    words = [f"curl -X {method}"]
    if bearer:
        words.append('-H "Authorization: Bearer $PDCTL_TOKEN"')
    if body is not None:
        words.append(f"-H 'Content-Type: application/json' -d {shlex.quote(json.dumps(body))}")
    return " ".join([*words, shlex.quote(url)])


def mode(wanted: Mode) -> Ask:
    """Another routing mode."""
    return _change("set_mode", ("mode", wanted.value), ChangeBody(mode=wanted), wanted.value)


def switch(wanted: Mode) -> Ask:
    """The same at once, without a plan to look at."""
    words, body = ("mode", wanted.value), {"mode": wanted.value}
    return _call("set_mode", words, "/mode", wanted.value, body=body, method="PUT")


def resize(sizes: Mapping[str, int]) -> Ask:
    """Other sizes; only pools that change are given."""
    words = tuple(f"{pool}={size}" for pool, size in sizes.items())
    names, wanted = " and ".join(sizes) or "pools", " and ".join(map(str, sizes.values())) or "…"
    return _change("resize", ("resize", *words), ChangeBody(sizes=dict(sizes)), names, wanted)


def on_one(verb: str, instance: str) -> Ask:
    """A verb of `ON_ONE`."""
    body = ChangeBody.model_validate({verb: [instance]})
    return _change(verb, (verb, instance), body, instance)


def move(instance: str, pool: str) -> Ask:
    """An instance into another pool."""
    words = ("move", instance, "--role", pool)
    return _change("move", words, ChangeBody(move={instance: pool}), instance, pool)


def router(settings: Mapping[str, str | int]) -> Ask:
    """Settings of the router, by name."""
    words = tuple(f"{name}={value}" for name, value in settings.items())
    names, values = " and ".join(settings), " and ".join(map(str, settings.values()))
    body = ChangeBody(router=dict(settings))
    return _change("set_router", ("router", "set", *words), body, names, values)


def change(words: Sequence[str], wanted: Change) -> Ask:
    """Several changes at once, given as `words`."""
    body = ChangeBody(
        mode=wanted.mode, sizes=dict(wanted.sizes), router=dict(wanted.router)
    )  # fmt: skip
    return _change("apply", ("plan", *words), body, " ".join(words))


def undo(to: int) -> Ask:
    """Back to an earlier revision of the desired fleet."""
    words = ("undo", "--to", str(to))
    return _call("undo", words, f"/revisions/{to}/plan", str(to), to_revision=to)


def clear(instance: str) -> Ask:
    """Let an instance that was given up try again."""
    return _call("clear", ("clear", instance), f"/instances/{_part(instance)}/clear", instance)


def cancel(operation: str) -> Ask:
    """Take an operation back."""
    path = f"/operations/{_part(operation)}/cancel"
    return _call("cancel", ("cancel", operation), path, operation)


def apply(plan: str) -> Ask:
    """Do what a plan shows."""
    return _call("apply", ("apply", plan), f"/plans/{_part(plan)}/apply", plan)


def ack(signal: str) -> Ask:
    """Take up a signal."""
    path = f"/signals/{_part(signal)}/ack"
    return _call("ack_signal", ("signals", "ack", signal), path, signal)


def silence(rule: str, subject: str = "*", for_s: int = SILENCE_S) -> Ask:
    """Keep what a rule says of a subject quiet for `for_s` seconds."""
    what = rule if subject == "*" else f"{rule} of {subject}"
    span = f"{for_s // 60}m" if for_s % 3600 else f"{for_s // 3600}h"
    words = ("signals", "silence", rule, "--subject", subject, "--for", span)
    body = {"rule": rule, "subject": subject, "for_s": for_s}
    return _call("silence", words, "/silences", what, about=(rule, subject), body=body)


def unsilence(id_: str) -> Ask:
    """End a silence."""
    words = ("signals", "unsilence", id_)
    return _call("unsilence", words, f"/silences/{_part(id_)}", id_)


def mark(name: str) -> Ask:
    """Name this moment."""
    return _call("mark", ("mark", name), "/marks", name, body={"name": name})


def golden() -> Ask:
    """Compare the tokens of one pair, handed over and not."""
    return _call("golden", ("golden",), "/golden", body={})


def _change(name: str, words: tuple[str, ...], body: ChangeBody, *named: str) -> Ask:
    """What goes through a plan."""
    asked = {"change": body.model_dump(mode="json", exclude_defaults=True)}
    verb = VERBS[name]
    return Ask(
        verb, verb.question.format(*named), ("pdctl", *words), "POST", "/api/v1/plans", asked,
        named, change=body,
    )  # fmt: skip


def _call(
    name: str,
    words: tuple[str, ...],
    path: str,
    *named: str,
    about: tuple[str, ...] = (),
    body: Mapping[str, Any] | None = None,
    to_revision: int | None = None,
    method: str = "",
) -> Ask:
    """What is done by one call; by default of the method that its verb names first."""
    verb = VERBS[name]
    return Ask(
        verb, verb.question.format(*named), ("pdctl", *words),
        method or verb.api[0].split()[0], f"/api/v1{path}", body, about or named,
        to_revision=to_revision,
    )  # fmt: skip


def _part(text: str) -> str:
    """`text` as one segment of a path."""
    return quote(text, safe="")

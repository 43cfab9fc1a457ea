"""Every verb is one thing in all faces: the API can do it, the command line says it, a role may.

A write that fails here is to be named in `pdctl/domain/verbs.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import typer

from pdctl.api.openapi import describe
from pdctl.cli.main import app
from pdctl.contract import asks, command
from pdctl.contract.asks import Ask
from pdctl.domain.access import Role
from pdctl.domain.change import parse
from pdctl.domain.errors import OperatorError
from pdctl.domain.topology import Mode
from pdctl.domain.verbs import PLAN, VERBS, Danger, Scope, Verb, needed
from pdctl.web.words import VERBS as WEB_WORDS
from pdctl_console.operating import ACTIONS
from pdctl_console.verbs import DONE

WRITES = ("post", "put", "patch", "delete")
EVERY = [
    asks.mode(Mode.PD), asks.switch(Mode.CHUNKED), asks.resize({"prefill": 2, "decode": 3}),
    *(asks.on_one(verb, "decode-1") for verb in asks.ON_ONE), asks.move("decode-1", "prefill"),
    asks.router({"retries": 2}), asks.router({"prefill_policy": "cost", "queue_limit": 9}),
    asks.change(("decode=3", "mode=pd"), parse(("decode=3", "mode=pd"))), asks.undo(7),
    asks.apply("plan-1f3a9c2e"), asks.cancel("op-7b20c4d1"), asks.clear("decode-1"),
    asks.ack("stall:decode-0"), asks.silence("stall"), asks.silence("*", "decode-*", 5400),
    asks.unsilence("3fa9c2d1"), asks.mark("before"), asks.golden(),
]  # fmt: skip
"""An ask of each kind that a face can make."""


def calls() -> Iterator[str]:
    for path, operations in describe()["paths"].items():
        for method in operations:
            if method in WRITES:
                yield f"{method.upper()} {path.removeprefix('/api/v1')}"


def commands(group: object, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    known = getattr(group, "commands", None)
    if known is None:
        yield words
    else:
        for name, one in known.items():
            yield from commands(one, (*words, name))


COMMANDS = set(commands(typer.main.get_command(app)))


def test_every_write_of_the_api_is_a_verb_and_every_verb_a_write() -> None:
    named = {call for verb in VERBS.values() for call in verb.api}
    assert set(calls()) == named


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_a_verb_is_whole(verb: Verb) -> None:
    assert verb.command in COMMANDS or verb.command[:1] in COMMANDS
    assert verb.label
    assert verb.effect.endswith(".")
    assert verb.question.endswith("?")
    assert WEB_WORDS[verb.name] == verb.label
    least = [needed(method, f"/api/v1{path}") for method, path in map(str.split, verb.api)]
    own = [role for call, role in zip(verb.api, least, strict=True) if call != PLAN]
    assert all(role is verb.role for role in own)
    assert all(verb.role.covers(role) for role in least)


def test_what_runs_programs_or_cannot_be_taken_back_takes_an_administrator() -> None:
    admin = {verb.name for verb in VERBS.values() if verb.role is Role.ADMIN}
    assert admin == {"set_fleet", "detach", "adopt", "kill_orphan"}
    assert {verb.name for verb in VERBS.values() if verb.danger is Danger.FINAL} <= admin
    viewer = {verb.scope for verb in VERBS.values() if verb.role is Role.VIEWER}
    assert viewer == {Scope.SESSION}


@pytest.mark.parametrize("ask", EVERY, ids=lambda ask: " ".join(ask.cli))
def test_what_a_dialog_shows_is_what_a_shell_takes(ask: Ask) -> None:
    pdctl, *words = ask.cli
    assert pdctl == "pdctl"
    assert command.split(ask.shell("http://127.0.0.1:8080")) == words
    assert any(tuple(words[:length]) in COMMANDS for length in (1, 2))
    again = command.read(words)
    assert (again.verb, again.cli, again.title) == (ask.verb, ask.cli, ask.title)
    assert again.change == ask.change or ask.method == "PUT"
    template = re.sub(r"\{\w+\}", "[^/]+", "|".join(ask.verb.api if not ask.change else [PLAN]))
    assert re.fullmatch(template, f"{ask.method} {ask.path.removeprefix('/api/v1')}")
    assert ask.path in ask.curl("http://127.0.0.1:8080")
    assert "Bearer" in ask.curl("http://127.0.0.1:8080", bearer=True)


def test_every_face_knows_every_ask() -> None:
    assert {ask.verb.name for ask in EVERY if not ask.planned} - {"set_mode"} == set(DONE)
    assert set(ACTIONS.values()) <= set(VERBS)
    unknown = set(command.FORMS) - {form for form in command.FORMS if _is_said(form)}
    assert not unknown


def _is_said(form: str) -> bool:
    return any(" ".join(ask.cli[1:]).startswith(form) for ask in EVERY)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("resise decode=3", "Did you mean 'resize'?"),
        ("resize", "Write: resize POOL=SIZE..."),
        ("resize decode=many", "no size for decode"),
        ("resize mode=pd", "Only sizes"),
        ("mode fast", "no mode 'fast'"),
        ("move decode-1", "Write: move INSTANCE --role POOL"),
        ("move decode-1 --role", "--role needs a value"),
        ("drain decode-1 --yes", "shown before it is done"),
        ("drain a b", "too much"),
        ("undo --to last", "to which revision"),
        ("signals silence stall --for 1y", "no span"),
        ("golden now", "too much"),
        ("resize 'decode=3", "quote is not closed"),
        ("", "Nothing was asked for"),
    ],
)
def test_a_wrong_command_says_how_it_is_written(line: str, said: str) -> None:
    with pytest.raises(OperatorError) as refused:
        command.read(command.split(line))
    assert said in f"{refused.value} {refused.value.hint}"

"""Every operator verb once: what it is called, what it does, how it asks, and who may.

Faces show them, the guard takes roles from them, and `tests/rules` compares all three with the
API: a write that no verb names is a defect, and so is a verb that the API cannot do. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from pdctl.domain.access import Role

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_V1 = "/api/v1"
PLAN = "POST /plans"


class Danger(StrEnum):
    """What it may cost."""

    CALM = "calm"
    """Nothing is stopped, and it is taken back as easily."""
    CAREFUL = "careful"
    """Engines start, drain or stop; streams are not cut."""
    FINAL = "final"
    """It cannot be taken back."""


class Scope(StrEnum):
    """What it is about, which is also what is named after it."""

    FLEET = "fleet"
    POOL = "pool"
    INSTANCE = "instance"
    REVISION = "revision"
    PLAN = "plan"
    OPERATION = "operation"
    ENGINE = "engine"
    SIGNAL = "signal"
    SILENCE = "silence"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class Verb:
    """One thing that an operator can do."""

    name: str
    """As the operations log calls it."""
    label: str
    """For people, in a list of what was done."""
    words: str
    """On the command line, after `pdctl`; capitals stand for what is named."""
    scope: Scope
    api: tuple[str, ...]
    """Method and path below /api/v1 of each call that does it; plans where it goes through one."""
    question: str
    """Before it is done; {0}, {1} stand for what is named."""
    effect: str
    """What comes of it, in one or two sentences."""
    role: Role = Role.OPERATOR
    danger: Danger = Danger.CALM
    field: str = ""
    """The field of a `domain.change.Change` that asks for it, where there is one."""

    @property
    def command(self) -> tuple[str, ...]:
        """The command's own words: `signals ack`."""
        return tuple(word for word in self.words.split() if word.islower() and word.isalpha())


_OPERATOR = (
    Verb(
        "set_mode", "switch mode", "mode pd|chunked", Scope.FLEET, (PLAN, "PUT /mode"),
        "Switch to {0}?",
        "New requests take the new mode at once; those under way finish as they began.",
        field="mode",
    ),
    Verb(
        "set_router", "switch routing", "router set NAME=VALUE...",
        Scope.FLEET, (PLAN, "PATCH /router"),
        "Switch {0} to {1}?",
        "New requests are routed so at once; those that have a route keep it.",
        field="router",
    ),
    Verb(
        "resize", "resize", "resize POOL=SIZE...", Scope.POOL, (PLAN, "PUT /pools/{name}"),
        "Resize {0} to {1}?",
        "What is new is probed before it takes work; what leaves is drained before it is stopped.",
        danger=Danger.CAREFUL, field="sizes",
    ),
    Verb(
        "drain", "drain", "drain INSTANCE", Scope.INSTANCE, (PLAN,),
        "Keep {0} out of rotation?",
        "It gets no new work, its streams finish, its process stays.",
        danger=Danger.CAREFUL, field="drain",
    ),
    Verb(
        "undrain", "undrain", "undrain INSTANCE", Scope.INSTANCE, (PLAN,),
        "Let {0} work again?", "It is in rotation again.", field="undrain",
    ),
    Verb(
        "restart", "restart", "restart INSTANCE|POOL",
        Scope.INSTANCE, (PLAN, "POST /instances/{id}/restart"),
        "Restart {0}?", "It is drained, stopped and started anew.",
        danger=Danger.CAREFUL, field="restart",
    ),
    Verb(
        "move", "move", "move INSTANCE --role POOL", Scope.INSTANCE, (PLAN,),
        "Move {0} to {1}?", "Its pool shrinks by it, and the other grows by one.",
        danger=Danger.CAREFUL, field="move",
    ),
    Verb(
        "stop", "stop", "stop INSTANCE", Scope.INSTANCE, (PLAN,),
        "Stop {0} for good?", "It is drained and stopped, and its pool becomes smaller by one.",
        danger=Danger.CAREFUL, field="stop",
    ),
    Verb(
        "undo", "undo", "undo --to REVISION", Scope.REVISION, ("POST /revisions/{number}/plan",),
        "Go back to revision {0}?", "The fleet of that revision is wanted again.",
        danger=Danger.CAREFUL,
    ),
    Verb(
        "apply", "several changes", "apply PLAN", Scope.PLAN, ("POST /plans/{id}/apply",),
        "Apply {0}?", "What the plan shows is done; refused when the fleet has moved since.",
        danger=Danger.CAREFUL,
    ),
    Verb(
        "cancel", "cancel", "cancel OPERATION", Scope.OPERATION, ("POST /operations/{id}/cancel",),
        "Cancel {0}?",
        "The fleet that was wanted before is wanted again: what still drains returns to work, "
        "what was started leaves.",
        danger=Danger.CAREFUL,
    ),
    Verb(
        "clear", "clear failures", "clear INSTANCE",
        Scope.INSTANCE, ("POST /instances/{id}/clear",),
        "Try {0} again?", "Its failures are forgotten and it is started again at once.",
    ),
    Verb(
        "golden", "golden check", "golden", Scope.FLEET, ("POST /golden",),
        "Compare tokens of a pair?", "One pair is asked the same prompt whole and handed over.",
    ),
    Verb(
        "mark", "name a moment", "mark NAME", Scope.FLEET, ("POST /marks",),
        "Name this moment {0}?", "Latency can be asked for from it on.",
    ),
    Verb(
        "unmark", "forget a moment", "mark NAME --delete", Scope.FLEET, ("DELETE /marks/{name}",),
        "Forget {0}?", "The mark is forgotten; what was measured stays.",
    ),
    Verb(
        "ack_signal", "acknowledge a signal", "signals ack SIGNAL",
        Scope.SIGNAL, ("POST /signals/{id}/ack",),
        "Take up {0}?",
        "It is no longer counted, until it fires anew. Others see that you have it.",
    ),
    Verb(
        "silence", "silence signals", "signals silence RULE --for SPAN",
        Scope.SIGNAL, ("POST /silences",),
        "Keep {0} quiet?",
        "What matches is neither counted nor sent. It is watched and shown all the same.",
    ),
    Verb(
        "unsilence", "end a silence", "signals unsilence SILENCE",
        Scope.SILENCE, ("DELETE /silences/{id}",),
        "End silence {0}?", "What it kept quiet is counted and sent again, if it still fires.",
    ),
)  # fmt: skip
_ADMIN = (
    Verb(
        "set_fleet", "new fleet file", "apply --file FILE", Scope.FLEET, (PLAN, "PUT /fleet"),
        "Put this fleet file in force?", "It may name other programs and models to execute.",
        role=Role.ADMIN, danger=Danger.CAREFUL, field="fleet",
    ),
    Verb(
        "detach", "let go of the fleet", "detach", Scope.FLEET, ("POST /detach",),
        "Let go of engines and router workers?", "They go on serving; pdctl serve ends.",
        role=Role.ADMIN, danger=Danger.CAREFUL,
    ),
    Verb(
        "adopt", "adopt an engine", "orphans adopt ENGINE --pool POOL",
        Scope.ENGINE, ("POST /orphans/{key}/adopt",),
        "Adopt {0} into {1}?", "It becomes an instance, and the pool grows by one.",
        role=Role.ADMIN, danger=Danger.CAREFUL,
    ),
    Verb(
        "kill_orphan", "end an engine", "orphans kill ENGINE",
        Scope.ENGINE, ("POST /orphans/{key}/kill",),
        "End {0}?", "Its whole family of processes is ended, and nobody starts it again.",
        role=Role.ADMIN, danger=Danger.FINAL,
    ),
)  # fmt: skip
_ANYBODY = (
    Verb(
        "sign_in", "sign in", "login USER", Scope.SESSION, ("POST /session",),
        "Sign in?", "A session begins.", role=Role.VIEWER,
    ),
    Verb(
        "sign_out", "sign out", "logout", Scope.SESSION, ("DELETE /session",),
        "Sign out?", "The session ends; a token of the access file does not.", role=Role.VIEWER,
    ),
)  # fmt: skip
VERBS: dict[str, Verb] = {one.name: one for one in (*_OPERATOR, *_ADMIN, *_ANYBODY)}
"""By name, in the order in which faces show them."""


def _roles() -> list[tuple[re.Pattern[str], Role]]:
    """Each call and the least role of its verbs: where a body asks for more, its route says so."""
    least: dict[str, Role] = {}
    for verb in VERBS.values():
        for call in verb.api:
            known = least.get(call, verb.role)
            least[call] = verb.role if known.covers(verb.role) else known
    return [(_pattern(call), role) for call, role in least.items()]


def _pattern(call: str) -> re.Pattern[str]:
    method, path = call.split()
    parts = (r"[^/]+" if part.startswith("{") else re.escape(part) for part in path.split("/"))
    return re.compile(f"{method} {_V1}{'/'.join(parts)}/?")


_ROLES = _roles()


def needed(method: str, path: str) -> Role:
    """The role that a request of the admin API takes; a fleet file in its body takes ADMIN.

    Nobody but an administrator is told that a write does not exist.
    """
    if method in _SAFE:
        return Role.VIEWER
    call = f"{method} {path}"
    return next((role for pattern, role in _ROLES if pattern.fullmatch(call)), Role.ADMIN)


def by_field() -> dict[str, str]:
    """Field of a change -> the verb that an operator would call it."""
    return {one.field: one.name for one in VERBS.values() if one.field}

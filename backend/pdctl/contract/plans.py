"""Plans and operations on the wire: a change asked for, what it will do, and how it went."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from pdctl.contract.wire import SCHEMA_VERSION, Wire
from pdctl.domain.topology import Mode, Role

Name = Annotated[str, Field(min_length=1, max_length=200)]
FLEET_EXAMPLE = """[fleet]
model = "/models/llama"
[engine]
kind = "simulated"
[pools.prefill]
size = 1
[pools.decode]
size = 2
"""
Names = Annotated[list[Name], Field(max_length=1000)]


class ChangeBody(BaseModel):
    """What to change. Everything given is planned, and applied, together."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"sizes": {"prefill": 2, "decode": 3}}]},
    )

    mode: Mode | None = None
    sizes: dict[Name, Annotated[int, Field(ge=0, le=1000)]] = Field(default_factory=dict)
    """New size by pool, or by role where one pool has that role."""
    file: str | None = Field(default=None, max_length=1_000_000)
    """Text of a whole new fleet file (TOML); `mode` and `sizes` come on top of it."""
    file_path: str | None = Field(default=None, max_length=4096)
    """Where that text lies on the server's machine: relative paths in it start there."""
    restart: Names = Field(default_factory=list)
    """Instances or pools; of a pool, one at a time or as many as its `surge`, and where there is
    room the new ones before the old ones go."""
    drain: Names = Field(default_factory=list)
    """Instances to keep out of rotation until they are undrained."""
    undrain: Names = Field(default_factory=list)
    stop: Names = Field(default_factory=list)
    """Instances that go for good: their pools shrink by them."""
    move: dict[Name, Name] = Field(default_factory=dict)
    """Instance -> the pool (or role) that it shall belong to."""
    router: dict[Name, Annotated[str, Field(max_length=200)] | int] = Field(default_factory=dict)
    """Setting of the router that is switched live -> its new value."""


class PlanPost(BaseModel):
    """Ask what a change would do; nothing is changed by asking."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"change": {"sizes": {"decode": 3}, "mode": "pd"}}]},
    )

    change: ChangeBody


class PoolPut(BaseModel):
    """How large a pool shall be."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"size": 2}]})

    size: int = Field(ge=0, le=1000)


class FleetPut(BaseModel):
    """A whole fleet file."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"file": FLEET_EXAMPLE}]},
    )

    file: str = Field(max_length=1_000_000)
    """Its text (TOML)."""
    file_path: str | None = Field(default=None, max_length=4096)
    """Where it lies on the server's machine: relative paths in it start there."""


class StepView(Wire):
    """One action. Steps come in the order in which they are taken; times count from the start."""

    number: int
    kind: str
    """route | launch | warm | probe | ready | drain | undrain | stop | kill | retry | give_up |
    forget | reassign"""
    subject: str
    """Instance id, "prefill-0>decode-1" for a probe, "fleet" for a mode."""
    pool: str = ""
    role: Role | None = None
    device: str = ""
    core: str = ""
    ports: list[int] = Field(default_factory=list)
    streams: int = 0
    """Open on it when the plan was made."""
    lease_s: float | None = None
    """KV that nobody has pulled yet may keep it alive for so long after its last stream."""
    starts_s: float
    ends_s: float | None = None
    samples: int | None = None
    """How many times this fleet was seen doing it; 0: assumed; null: takes no time."""
    why: str = ""


class CapacityView(Wire):
    """How many instances take new work from `at_s` on (an instance of both roles counts twice)."""

    at_s: float
    prefill: int
    decode: int
    serving: int
    handoffs: bool = False
    """At least one pair hands over; while none does, PD requests are served whole."""


class DipView(Wire):
    """The lowest point of a role during the change."""

    role: str
    before: int
    lowest: int
    after: int
    at_s: float
    for_s: float


class RefusedView(Wire):
    """What cannot be, why, and what to ask instead."""

    code: str
    message: str
    hint: str = ""


class RestView(Wire):
    """What follows the steps that are listed and was not rehearsed one by one."""

    left: dict[str, int]
    """Instances that are still to come or to go after those steps, by pool."""
    total: int
    """Instances that the whole change is about."""
    seen_s: float
    """Where the rehearsal stopped, seconds from the start."""
    at_least: bool
    """The expected time is a lower bound: of some pool, nothing was seen to its end."""
    words: str
    """The same for people."""


class PlanView(Wire):
    """A rehearsed change: apply it by id while the fleet has not moved."""

    schema_version: int = SCHEMA_VERSION
    id: str
    author: str
    source: str
    created_at: datetime
    change: list[str]
    """The change in words."""
    revision: int
    """Of the desired fleet that it rests on."""
    digest: str
    """Of the world that it rests on."""
    stale: str = ""
    """What has moved since, in words; empty while it can be applied."""
    shape_before: str
    shape_after: str
    mode_before: Mode
    mode_after: Mode
    steps: list[StepView]
    capacity: list[CapacityView]
    lowest: list[DipView]
    expected_s: float
    """Derived from the steps that are listed where there is a `rest`."""
    rest: RestView | None = None
    """Not null: only the first steps are listed, and the rest goes on like them."""
    refused: list[RefusedView]
    """Not empty: the plan cannot be applied."""
    risks: list[str]
    warnings: list[str] = Field(default_factory=list)
    """About the posted fleet file."""
    operation: str | None = None
    """The operation that it was applied as."""

    @property
    def about(self) -> str:
        """What the expected time is."""
        return _about(self.rest)


class PlanPage(Wire):
    """The newest plans first."""

    schema_version: int = SCHEMA_VERSION
    items: list[PlanView]


class OperationStepView(StepView):
    """One step of an applied plan, as it was foreseen."""

    done: bool
    """It has been seen to happen."""


class OperationView(Wire):
    """An applied plan and how far it is."""

    schema_version: int = SCHEMA_VERSION
    id: str
    plan: str
    change: list[str]
    actor: str
    source: str
    state: str
    """running | done | failed | cancelled"""
    message: str = ""
    steps_done: int
    steps_total: int
    """Of those that were listed; with `rest`, more follow."""
    rest: RestView | None = None
    instances_done: int | None = None
    """Of the `rest.total` instances of this change, those that are in place; null without a
    `rest`."""
    waiting_for: list[str] = Field(default_factory=list)
    """The next steps that have not been seen to happen, a few of them."""
    revision: int
    expected_s: float
    started_at: datetime
    ended_at: datetime | None = None
    steps: list[OperationStepView] = Field(default_factory=list)
    """All that were foreseen one by one, in order; left out of a list of operations."""

    @property
    def about(self) -> str:
        """What the expected time is."""
        return _about(self.rest)

    @property
    def progress(self) -> str:
        """How far it is: in steps, or in instances where not all steps are known."""
        if self.rest is None:
            return f"{self.steps_done} of {self.steps_total} steps"
        return f"{self.instances_done or 0} of {self.rest.total} instances"

    @property
    def share(self) -> float:
        """The same from 0 to 1."""
        if self.rest is None:
            return self.steps_done / self.steps_total if self.steps_total else 1.0
        return (self.instances_done or 0) / self.rest.total if self.rest.total else 1.0


def _about(rest: RestView | None) -> str:
    return "at least" if rest is not None and rest.at_least else "about"


class OperationPage(Wire):
    """The newest operations first."""

    schema_version: int = SCHEMA_VERSION
    items: list[OperationView]
    next: int | None = None
    """`before` of the next page; None: that was all."""
    note: str = ""
    """Why older ones are missing; empty when none are."""

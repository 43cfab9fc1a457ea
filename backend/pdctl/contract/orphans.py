"""What the admin API says of engines that no instance owns."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from pdctl.contract.wire import Wire
from pdctl.domain.orphans import Kind


class EngineProcess(Wire):
    """One process of an engine."""

    pid: int
    what: str
    """Its part of the engine, or its program."""


class OrphanView(Wire):
    """One engine of this machine and who answers for it."""

    key: str
    """pid and start time: names exactly this engine."""
    kind: Kind
    what: str
    why: str
    pid: int
    user: str = ""
    permitted: bool = True
    """False: it belongs to another user, so ports are unknown and it cannot be ended from here."""
    since: datetime | None = None
    command: list[str] = Field(default_factory=list)
    processes: list[EngineProcess] = Field(default_factory=list)
    ports: list[int] = Field(default_factory=list)
    memory_bytes: int | None = None
    """Resident in all its processes; shared pages count in each."""
    gpu_memory_bytes: int | None = None
    device: str = ""
    core: str = ""
    model: str = ""
    kv_role: str = ""
    instance: str = ""
    folder: str = ""
    """Run-time records of the pdctl that supervises it."""
    supervised: bool = False


class OrphanPage(Wire):
    """Engines, the oldest first."""

    at: datetime
    """When they were looked at."""
    items: list[OrphanView]


class AdoptedView(Wire):
    """An engine that has become an instance."""

    key: str
    instance: str
    pool: str
    revision: int
    warning: str = ""


class KillBody(BaseModel):
    """How to end an engine."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"force": False}]})

    force: bool = False
    """End it although another pdctl supervises it."""


class AdoptBody(BaseModel):
    """Where an engine shall belong."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"pool": "decode"}]})

    pool: str = Field(min_length=1, max_length=200)

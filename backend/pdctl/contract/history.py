"""What was done and what was wanted, on the wire: the operations log and the revisions."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from pdctl.contract.wire import SCHEMA_VERSION, Wire
from pdctl.domain.topology import Mode


class AuditEntryView(Wire):
    """One verb: who, from where, before and after, and what came of it."""

    seq: int
    """Position in the feed of events; the log's own order."""
    at: datetime
    verb: str
    """set_mode | resize | drain | undrain | restart | move | stop | set_fleet | undo | clear |
    cancel | apply (several changes at once) | operation (an applied plan ended)"""
    actor: str
    source: str
    """tui | web | cli | rest"""
    outcome: str
    """done | refused | failed | cancelled"""
    subject: str
    message: str = ""
    before: str = ""
    after: str = ""
    plan: str = ""
    operation: str = ""
    about: list[str] = Field(default_factory=list)
    """Instances and pools that it names."""
    details: dict[str, Any] = Field(default_factory=dict)


class AuditPage(Wire):
    """Entries, oldest first."""

    schema_version: int = SCHEMA_VERSION
    items: list[AuditEntryView]
    note: str = ""
    """What is missing, when something is."""


class RevisionView(Wire):
    """One accepted desired state."""

    revision: int
    at: datetime
    author: str
    reason: str
    shape: str
    mode: Mode
    current: bool
    changes: list[str]
    """What it changed, in words, against the revision before it."""


class RevisionPage(Wire):
    """Revisions, newest first."""

    schema_version: int = SCHEMA_VERSION
    items: list[RevisionView]
    next: int | None = None
    """`before` of the page of older ones; null when there are none."""


class RevisionDetail(RevisionView):
    """One revision with every field of its fleet, secrets masked."""

    schema_version: int = SCHEMA_VERSION
    fields: dict[str, Any]
    """By path, as in a difference: "pools.decode.size": 2."""


class FieldChangeView(Wire):
    """One field that differs."""

    path: str
    before: str
    after: str
    words: str


class RevisionDiff(Wire):
    """What differs between two revisions."""

    schema_version: int = SCHEMA_VERSION
    a: int
    b: int
    changes: list[FieldChangeView]
    words: list[str]
    """The same for people: a pool that comes or goes is one sentence."""

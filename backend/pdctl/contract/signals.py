"""What is wrong with the fleet, on the wire: signals, their history, silences."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from pdctl.contract.wire import SCHEMA_VERSION, Wire
from pdctl.domain.signals.book import State
from pdctl.domain.signals.rules import Severity


class RuleView(Wire):
    """One thing that is watched."""

    name: str
    title: str
    severity: Severity
    threshold: float
    unit: str
    """share (0..1) | s | x (times) | count"""
    threshold_text: str
    for_s: float
    means: str
    matters: str
    knob: str
    """{subject} stands for the one it concerns."""
    source: str


class AckView(Wire):
    """Who has taken a signal up."""

    by: str
    at: datetime
    note: str = ""


class SilenceView(Wire):
    """Signals that make no noise until it ends. Rule and subject may be shell patterns."""

    id: str
    rule: str
    subject: str
    at: datetime
    until: datetime
    by: str
    note: str = ""


class SignalView(Wire):
    """One thing that is or was wrong, what it means, and the knob to turn."""

    id: str
    """Names it while it lasts; what `ack` takes."""
    episode: str
    """Names this time that it fired; empty while it is pending."""
    rule: str
    subject: str
    """Instance, pair ("prefill-0>decode-0"), pool, objective, or "router", "machine", "pdctl"."""
    about: list[str] = Field(default_factory=list)
    """The instances that it concerns, as far as it concerns any."""
    severity: Severity
    state: State
    title: str
    detail: str = ""
    value: float
    value_text: str
    """With its unit."""
    worst_text: str = ""
    threshold_text: str
    known: bool = True
    """False: its number is not known now; it is as it was at `seen_at`."""
    since: datetime
    seen_at: datetime
    fired_at: datetime | None = None
    resolved_at: datetime | None = None
    ending: str = ""
    means: str
    matters: str
    knob: str
    source: str
    ack: AckView | None = None
    silence: SilenceView | None = None

    @property
    def loud(self) -> bool:
        """It fires, and nobody has taken it up or silenced it."""
        return self.state is State.FIRING and self.ack is None and self.silence is None


class WebhookView(Wire):
    """How the webhook takes signals; its address is never shown."""

    configured: bool = False
    failures: int = 0
    """Attempts in a row that failed."""
    error: str = ""


class SignalPage(Wire):
    """What fires and what is pending, the worst first."""

    schema_version: int = SCHEMA_VERSION
    at: datetime
    simulated: bool = False
    """The engines of this fleet are simulated."""
    enabled: bool = True
    firing: int = 0
    """Those that nobody has taken up or silenced."""
    items: list[SignalView] = Field(default_factory=list)
    silences: list[SilenceView] = Field(default_factory=list)
    rules: list[RuleView] = Field(default_factory=list)
    """What is watched."""
    webhook: WebhookView = WebhookView()


class SignalHistoryPage(Wire):
    """Signals that fired, newest first; `next` goes into `before` for the older ones."""

    schema_version: int = SCHEMA_VERSION
    at: datetime
    simulated: bool = False
    items: list[SignalView]
    next: str | None = None


class AckBody(BaseModel):
    """Why it is in good hands."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"note": "restarting it"}]}
    )

    note: str = Field(default="", max_length=500)


class SilenceBody(BaseModel):
    """What to keep quiet, and for how long."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"rule": "kv_nearly_full", "for_s": 7200}]},
    )

    rule: str = Field(default="*", min_length=1, max_length=100)
    subject: str = Field(default="*", min_length=1, max_length=600)
    for_s: float = Field(ge=60, le=30 * 86_400)
    note: str = Field(default="", max_length=500)

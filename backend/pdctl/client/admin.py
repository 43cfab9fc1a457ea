"""One method per admin operation, grouped by what it is about: a new one goes into its section."""

from __future__ import annotations

from pdctl.client.sections.access import AccessSection
from pdctl.client.sections.changes import ChangeSection
from pdctl.client.sections.fleet import FleetSection
from pdctl.client.sections.instances import InstanceSection
from pdctl.client.sections.meters import MeterSection
from pdctl.client.sections.orphans import OrphanSection
from pdctl.client.sections.records import RecordSection
from pdctl.client.sections.server import ServerSection
from pdctl.client.sections.signals import SignalSection


class AdminClient(
    FleetSection,
    InstanceSection,
    ChangeSection,
    RecordSection,
    MeterSection,
    OrphanSection,
    ServerSection,
    SignalSection,
    AccessSection,
):
    """A client of one `pdctl serve`. Use as an async context manager, or call `close`."""

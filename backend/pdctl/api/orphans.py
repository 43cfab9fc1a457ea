"""/orphans: engine processes of this machine that no instance owns, to be ended or adopted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Path, Query

from pdctl.api.context import Plane, Who
from pdctl.api.views import moment
from pdctl.contract.orphans import (
    AdoptBody,
    AdoptedView,
    EngineProcess,
    KillBody,
    OrphanPage,
    OrphanView,
)
from pdctl.control.orphans import Orphans
from pdctl.control.plane import ControlPlane
from pdctl.domain import redaction
from pdctl.domain.errors import ConflictError
from pdctl.domain.orphans import Found, Kind
from pdctl.domain.takeover import flags_of

router = APIRouter(prefix="/orphans", tags=["orphans"])
Key = Annotated[
    str, Path(pattern=r"^\d{1,10}-\d{1,20}$", description='pid and start time: "4711-90210".')
]


@router.get("", operation_id="listOrphans")
async def list_orphans(
    plane: Plane,
    owned: Annotated[bool, Query(description="Instances of this fleet as well.")] = False,
) -> OrphanPage:
    """Every engine on this machine, and who answers for it."""
    found = await _verbs(plane).list()
    return orphan_page(found, plane.clock.now(), owned=owned)


@router.post("/{key}/kill", operation_id="killOrphan")
async def kill_orphan(key: Key, plane: Plane, who: Who, body: KillBody | None = None) -> OrphanView:
    """SIGTERM, then the whole family, then its shared memory. Answers when it is gone."""
    force = body is not None and body.force
    found = await _verbs(plane).kill(key, force=force, actor=who.actor, source=who.source)
    return orphan_view(found)


@router.post("/{key}/adopt", operation_id="adoptOrphan", status_code=202)
async def adopt_orphan(key: Key, body: AdoptBody, plane: Plane, who: Who) -> AdoptedView:
    """Make it the next instance of a pool, which grows by one; it takes work once it is ready."""
    run, fits = await _verbs(plane).adopt(key, body.pool, actor=who.actor, source=who.source)
    revision = plane.state.fleet.desired.revision
    return AdoptedView(
        key=key, instance=run.order.instance_id, pool=run.order.pool, revision=revision,
        warning=fits.warning,
    )  # fmt: skip


def orphan_page(found: Sequence[Found], at: float, *, owned: bool) -> OrphanPage:
    """What was found at that wall time; `owned`: instances of this fleet as well."""
    shown = [orphan_view(one) for one in found if owned or one.kind is not Kind.ADOPTED]
    return OrphanPage(at=moment(at), items=shown)


def orphan_view(found: Found) -> OrphanView:
    """An engine as the API shows it, secrets redacted."""
    family, leader, flags = found.family, found.family.leader, flags_of(found.family)
    return OrphanView(
        key=found.key, kind=found.kind, what=leader.part, why=found.why, pid=leader.pid,
        user=leader.user, permitted=leader.readable,
        since=moment(leader.since) if leader.since else None,
        command=redaction.redact(leader.words, ())[0],
        processes=[
            EngineProcess(pid=one.pid, what=one.part or one.words[0].rpartition("/")[2])
            for one in family.members
        ],
        ports=list(family.ports), memory_bytes=family.memory, gpu_memory_bytes=family.gpu_memory,
        device=family.variable("CUDA_VISIBLE_DEVICES"),
        core=family.variable("VLLM_CPU_OMP_THREADS_BIND"),
        model=flags.served, kv_role=flags.kv_role, instance=found.instance,
        folder=found.folder, supervised=found.supervised,
    )  # fmt: skip


def _verbs(plane: ControlPlane) -> Orphans:
    if plane.orphans is None:
        raise ConflictError("not_here", "This pdctl does not look at the processes of a machine.")
    return plane.orphans

"""/instances: what each one is doing, how it was launched, and the verbs on one."""

from __future__ import annotations

from typing import Annotated, Any, cast

from fastapi import APIRouter, Path, Request
from starlette.responses import JSONResponse, Response

from pdctl.api.context import Plane, Who
from pdctl.api.fields import Fields, trimmed
from pdctl.api.rates import Rates
from pdctl.api.views import in_process, instance_view, instance_views
from pdctl.contract.resources import CommandView, InstanceView
from pdctl.control.plane import ControlPlane
from pdctl.domain.errors import NotFoundError
from pdctl.domain.instance import Instance
from pdctl.domain.topology import fingerprint

router = APIRouter(prefix="/instances", tags=["instances"])
Id = Annotated[str, Path(alias="id", description='For example "decode-0".')]


def find(plane: ControlPlane, id_: str) -> Instance:
    """The instance called `id_`; NotFoundError names the ones there are."""
    fleet = plane.state.fleet
    one = fleet.instance(id_)
    if one is None:
        known = ", ".join(other.id for other in fleet.instances[:20]) or "none"
        raise NotFoundError(
            "no_such_instance", f"There is no instance {id_!r}.", f"Instances: {known}."
        )
    return one


@router.get(
    "", operation_id="listInstances", response_model=list[InstanceView] | list[dict[str, Any]]
)
async def list_instances(
    request: Request, plane: Plane, fields: Fields = None
) -> list[InstanceView] | Response:
    """Every instance."""
    found = instance_views(plane, cast("Rates", request.app.state.rates))
    return found if fields is None else JSONResponse(trimmed(found, InstanceView, fields))


@router.get("/{id}", operation_id="getInstance")
async def get_instance(id_: Id, request: Request, plane: Plane) -> InstanceView:
    """One instance."""
    one = find(plane, id_)
    desired = plane.state.fleet.desired
    pool = desired.pool(one.pool)
    wanted = None if pool is None else fingerprint(desired, pool)
    return instance_view(plane, cast("Rates", request.app.state.rates), one, plane.load(), wanted)


@router.get("/{id}/command", operation_id="getInstanceCommand")
async def get_command(id_: Id, plane: Plane) -> CommandView:
    """The exact argv and environment of an instance, secrets redacted."""
    find(plane, id_)
    command = plane.command_view(id_)
    if command is None:
        raise NotFoundError(
            "no_command",
            f"The command of {id_} is not known.",
            "Its pool is no longer in the fleet file.",
        )
    argv, env = command
    return CommandView(instance=id_, argv=list(argv), env=env, in_process=in_process(plane))


@router.post("/{id}/restart", operation_id="restartInstance", status_code=202)
async def restart(id_: Id, request: Request, plane: Plane, who: Who) -> InstanceView:
    """Drain the instance, stop it and start it again. Answers at once; watch it in `/events`."""
    find(plane, id_)
    await plane.operations.restart_instance(id_, actor=who.actor, source=who.source)
    return await get_instance(id_, request, plane)


@router.post("/{id}/clear", operation_id="clearInstance", status_code=202)
async def clear(id_: Id, request: Request, plane: Plane, who: Who) -> InstanceView:
    """Forget the failures of an instance that was given up, and start it again."""
    find(plane, id_)
    await plane.operations.clear_failure(id_, actor=who.actor, source=who.source)
    return await get_instance(id_, request, plane)

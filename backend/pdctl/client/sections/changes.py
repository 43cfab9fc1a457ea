"""Changes of the desired fleet: rehearse, apply, go back."""

from __future__ import annotations

from pdctl.client.transport import Transport, parse, part
from pdctl.contract.history import RevisionDetail, RevisionDiff, RevisionPage
from pdctl.contract.plans import (
    ChangeBody,
    OperationPage,
    OperationView,
    PlanPage,
    PlanPost,
    PlanView,
)


class ChangeSection(Transport):
    """Plans, operations and revisions."""

    async def plan(self, change: ChangeBody) -> PlanView:
        """Rehearse a change; nothing is changed by it."""
        body = PlanPost(change=change).model_dump(mode="json", exclude_defaults=True)
        return parse(PlanView, await self._call("POST", "/api/v1/plans", json=body, once=False))

    async def plans(self) -> PlanPage:
        """The newest plans, without their steps."""
        return await self._get("/api/v1/plans", PlanPage)

    async def plan_of(self, id_: str) -> PlanView:
        """One plan, and whether it is stale."""
        return await self._get(f"/api/v1/plans/{part(id_)}", PlanView)

    async def apply(self, id_: str) -> OperationView:
        """Do what a plan shows; Conflict when the fleet has moved since."""
        path = f"/api/v1/plans/{part(id_)}/apply"
        return parse(OperationView, await self._call("POST", path))

    async def operations(self, limit: int = 50, before: int | None = None) -> OperationPage:
        """Applied plans, newest first."""
        query = {"limit": limit, "before": before}
        return await self._get("/api/v1/operations", OperationPage, query)

    async def operation(self, id_: str) -> OperationView:
        """One applied plan: how far it is, or how it ended."""
        return await self._get(f"/api/v1/operations/{part(id_)}", OperationView)

    async def cancel(self, id_: str) -> OperationView:
        """Go back to the fleet that was desired before this operation."""
        path = f"/api/v1/operations/{part(id_)}/cancel"
        return parse(OperationView, await self._call("POST", path))

    async def revisions(self, limit: int = 50, before: int | None = None) -> RevisionPage:
        """Every accepted desired state, newest first."""
        query = {"limit": limit, "before": before}
        return await self._get("/api/v1/revisions", RevisionPage, query)

    async def revision(self, number: int) -> RevisionDetail:
        """One revision, with every field of its fleet."""
        return await self._get(f"/api/v1/revisions/{number}", RevisionDetail)

    async def diff(self, a: int, b: int) -> RevisionDiff:
        """What differs between two revisions."""
        return await self._get(f"/api/v1/revisions/{a}/diff/{b}", RevisionDiff)

    async def plan_undo(self, number: int) -> PlanView:
        """Rehearse the way back to a revision; nothing is changed by it."""
        path = f"/api/v1/revisions/{number}/plan"
        return parse(PlanView, await self._call("POST", path, once=False))

"""What requests add up to: goodput, whether their KV moved, one time against another."""

from __future__ import annotations

from collections.abc import Sequence

from pdctl.client.transport import Transport, parse, part
from pdctl.contract.compare import ComparePage, MarkBody, MarkPage, MarkView
from pdctl.contract.golden import GoldenBody, GoldenPage, GoldenView
from pdctl.contract.goodput import GoodputPage
from pdctl.contract.past import PastView
from pdctl.contract.truth import TruthPage


class MeterSection(Transport):
    """Goodput, truth, comparisons and marks."""

    async def goodput(
        self,
        slo: Sequence[str] | None = None,
        by: Sequence[str] | None = None,
        window_s: int | None = 300,
    ) -> GoodputPage:
        """Requests within each objective, by group; window None: since the start."""
        query = {
            "slo": list(slo) if slo else None, "by": list(by) if by else None,
            "window": "all" if window_s is None else str(window_s),
        }  # fmt: skip
        return await self._get("/api/v1/goodput", GoodputPage, query)

    async def truth(self, window_s: int | None = 3600) -> TruthPage:
        """Handed-over requests by what became of their KV; window None: since the start."""
        query = {"window": "all" if window_s is None else str(window_s)}
        return await self._get("/api/v1/truth", TruthPage, query)

    async def past(self, at: str, around_s: int = 300) -> PastView:
        """The fleet at a moment that is over ("10m", ISO 8601, a mark), and what was around it."""
        return await self._get("/api/v1/past", PastView, {"at": at, "around_s": around_s})

    async def compare_latency(
        self,
        a: str,
        b: str,
        metric: Sequence[str] | None = None,
        q: Sequence[float] | None = None,
    ) -> ComparePage:
        """By how much b's quantiles differ from a's; each "GROUP@TIME", as the API says."""
        query = {"a": a, "b": b, "metric": list(metric or []) or None, "q": list(q or []) or None}
        return await self._get("/api/v1/histograms/compare", ComparePage, query)

    async def marks(self) -> MarkPage:
        """Named moments, newest first."""
        return await self._get("/api/v1/marks", MarkPage)

    async def mark(self, name: str) -> MarkView:
        """Name this moment."""
        body = MarkBody(name=name).model_dump(mode="json")
        return parse(MarkView, await self._call("POST", "/api/v1/marks", json=body))

    async def unmark(self, name: str) -> None:
        """Forget a moment's name."""
        await self._call("DELETE", f"/api/v1/marks/{part(name)}")

    async def golden_checks(self) -> GoldenPage:
        """The newest golden checks."""
        return await self._get("/api/v1/golden", GoldenPage)

    async def check_golden(self, prefill: str = "", decode: str = "") -> GoldenView:
        """Ask a pair both ways now; without ends, the pair that was checked longest ago."""
        body = GoldenBody(prefill=prefill or None, decode=decode or None).model_dump(mode="json")
        answer = await self._call("POST", "/api/v1/golden", json=body)
        return parse(GoldenView, answer)

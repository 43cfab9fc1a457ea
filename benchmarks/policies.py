"""Routing policies side by side on the same traffic. `make bench-policies`.

The dispatcher, its memory and the policies are the router's own; engines are the simulated ones, in
virtual time (`benchmarks.virtual`), so the same seed gives the same table on any machine. What the
router itself costs is not in it: `benchmarks.router` measures that.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from benchmarks.traffic import Talk, Turn, Workload, flood, workloads
from benchmarks.virtual import Engine, Sequence, VirtualLoop
from pdctl.domain.ids import InstanceId
from pdctl.domain.table import RoutingTable, Target
from pdctl.domain.topology import Mode, Role, RouterSpec, SloSpec
from pdctl.gateway.dispatcher import Dispatcher
from pdctl.gateway.ledger import Reservation
from pdctl.routing.facts import RequestFacts, read_facts
from pdctl.routing.prefix import chain_of
from pdctl.routing.router import Avoid
from pdctl.simulated import SimConfig
from pdctl.tasks import spawn

PATH = "/v1/completions"
ENGINE = SimConfig(max_model_len=65_536, num_blocks=1200)
"""Room for 153 600 tokens of KV each: less than most of the traffic's texts take together."""
HEAD = """\
| traffic | policy | TTFT p50 ms | p99 ms | ITL p99 ms | good | cached | whole | refused |
|---|---|---|---|---|---|---|---|---|
"""
ROWS: dict[str, dict[str, Any]] = {
    "round_robin": {},
    "least_loaded": {},
    "power_of_two": {},
    "session_affinity": {},
    "prefix_affinity": {},
    "cost": {},
    "kv_events": {},
    "prefix_affinity, 512": {"pd_min_prompt_tokens": 512},
    "cost, 512": {"pd_min_prompt_tokens": 512},
}
"""Name of a row -> settings beside the policy; the number is `pd_min_prompt_tokens`."""
OBJECTIVES: dict[str, dict[str, Any]] = {
    f"{policy}{name}": settings
    for policy in ("least_loaded", "cost")
    for name, settings in {
        "": {},
        ", slo": {"slo": "good"},
        ", slo, queue": {"slo": "good", "admission": "queue"},
        ", slo, refuse": {"slo": "good", "admission": "refuse"},
    }.items()
}
"""The same for traffic that is too much: by what its users call good."""


@dataclass(slots=True)
class Story:
    """What one request took."""

    ttft_s: float
    tpot_s: float
    prompt: int
    cached: int
    """Prompt tokens that whoever computed the prompt had in its cache."""
    whole: bool


@dataclass(slots=True)
class Fleet:
    """The choices of routers over engines; requests go to one router after the other."""

    row: str
    size: tuple[int, int]
    routers: int = 1
    engines: dict[str, Engine] = field(default_factory=dict)
    stories: list[Story] = field(default_factory=list)
    refused: int = 0
    desks: list[Dispatcher] = field(default_factory=list)
    asked: int = 0

    async def serve(self, workload: Workload) -> None:
        """All of it, to its end."""
        loop = asyncio.get_running_loop()
        for role, count in zip("pd", self.size, strict=True):
            for number in range(count):
                id_ = f"{role}{number}"
                self.engines[id_] = Engine(id_, ENGINE, self.engines)
        slo = SloSpec("good", workload.ttft_s * 1000, workload.tpot_s * 1000)
        table = replace(self._table(), slos=(slo,))
        for number in range(self.routers):
            desk = Dispatcher(loop.time, Random(number))  # noqa: S311
            for target in table.targets:
                holding = desk.memory.holdings.open(target)
                holding.why_not = ""
                self.engines[target.id].tell(holding)
            desk.push(table)
            self.desks.append(desk)
        talks = [spawn(self._talk(talk), name="talk") for talk in workload.talks]
        await asyncio.gather(*talks)
        for desk in self.desks:
            desk.outbox.close()
        for engine in self.engines.values():
            await engine.close()

    def _table(self) -> RoutingTable:
        policy, settings = self.row.partition(",")[0], (ROWS | OBJECTIVES)[self.row]
        limits = RouterSpec(
            prefill_policy=policy, decode_policy=policy, queue_timeout_s=600.0, **settings
        )
        roles = {"p": Role.PREFILL, "d": Role.DECODE}
        targets = tuple(
            Target(InstanceId(id_), id_[0], roles[id_[0]], "", 0, 1, True) for id_ in self.engines
        )
        pairs = [(p.id, d.id) for p in targets for d in targets if p.id[0] + d.id[0] == "pd"]
        return RoutingTable(1, Mode.PD, "tiny", "nixl", 30.0, limits, targets, tuple(pairs))

    async def _talk(self, talk: Talk) -> None:
        await asyncio.sleep(talk.at)
        said = list(talk.opening)
        for turn in talk.turns:
            await asyncio.sleep(turn.pause_s)
            said = said + turn.asks
            await self._ask(said, turn, talk.session)
            said = said + turn.answer

    async def _ask(self, prompt: list[int], turn: Turn, session: str) -> None:
        tokens = len(turn.answer)
        began = asyncio.get_running_loop().time()
        body = {"prompt": prompt, "max_tokens": tokens}
        facts = read_facts(body, PATH, session)
        desk = self.desks[self.asked % self.routers]
        self.asked += 1
        if desk.board and desk.board.wants_history:
            facts = replace(facts, prefix=chain_of(body, PATH))
        if desk.board and desk.board.wants_events:
            facts = desk.memory.holdings.read(facts, prompt, "")
        reservation = await desk.find(facts, Avoid())
        if not isinstance(reservation, Reservation):
            self.refused += 1
            return
        computed, answer = await self._legs(desk, reservation, facts, prompt, tokens)
        span = answer.last_token_at - answer.first_token_at
        tpot = span / (tokens - 1) if tokens > 1 else 0.0
        if tpot:
            desk.memory.of(reservation.route.decode).step.learn(tokens - 1, span)
        self.stories.append(
            Story(
                answer.first_token_at - began, tpot, len(prompt), computed.local_hits,
                reservation.route.prefill is None,
            )
        )  # fmt: skip

    async def _legs(
        self,
        desk: Dispatcher,
        reservation: Reservation,
        facts: RequestFacts,
        prompt: list[int],
        tokens: int,
    ) -> tuple[Sequence, Sequence]:
        """(who computed the prompt, who answered): the gateway's legs without its sockets."""
        route, id_ = reservation.route, str(len(self.stories)) + str(id(prompt))
        now, decode, params = asyncio.get_running_loop().time, route.decode, None
        first = None
        if route.prefill is not None:
            sent = now()
            first = self.engines[route.prefill.id].send(id_, prompt, 1, {"do_remote_decode": True})
            while first.finish_reason is None:
                await first.bell.wait()
            computed = len(prompt) - first.local_hits
            desk.memory.of(route.prefill).prefilled(computed, sent, now())
            desk.hold(reservation, route.prefill.id)
            params = first.returned_params
        sent = now()
        answer = self.engines[decode.id].send(id_, prompt, tokens, params)
        while not answer.tokens:
            await answer.bell.wait()
        reservation.computed(decode.id)
        if route.prefill is None:
            desk.memory.of(decode).prefilled(reservation.computes, sent, now())
        else:
            desk.memory.of(decode).pull.learn(facts.prompt_tokens, now() - sent)
            desk.release(reservation, route.prefill.id)
        while answer.finish_reason is None:
            await answer.bell.wait()
        desk.release(reservation, decode.id)
        return first or answer, answer


def percentile(values: list[float], share: float) -> float:
    """The value that `share` of them do not exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def measure(row: str, workload: Workload, size: tuple[int, int], routers: int = 1) -> str:
    """One line of the table."""
    fleet = Fleet(row, size, routers)
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(fleet.serve(workload))
    stories, gaps = fleet.stories, [gap for one in fleet.engines.values() for gap in one.gaps]
    ttft = [one.ttft_s * 1000 for one in stories]
    good = [
        one for one in stories if one.ttft_s <= workload.ttft_s and one.tpot_s <= workload.tpot_s
    ]
    hits = sum(one.cached for one in stories) / sum(one.prompt for one in stories)
    whole = sum(one.whole for one in stories)
    return (
        f"| {workload.name} | {row} | {percentile(ttft, 0.5):.0f} | {percentile(ttft, 0.99):.0f} "
        f"| {percentile(gaps, 0.99) * 1000:.1f} | {len(good) / workload.requests:.1%} | {hits:.1%} "
        f"| {whole / len(stories):.0%} | {fleet.refused / workload.requests:.0%} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=600, help="of each kind of traffic")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fleet", default="4x4", help="prefill x decode instances")
    parser.add_argument("--routers", type=int, default=1, help="that share the fleet's requests")
    asked = parser.parse_args()
    prefill, _, decode = asked.fleet.partition("x")
    size = int(prefill), int(decode)
    sys.stdout.write(HEAD)
    kinds = [(one, ROWS) for one in workloads(asked.seed, asked.requests)]
    for workload, rows in [*kinds, (flood(asked.seed, asked.requests), OBJECTIVES)]:
        for row in rows:
            sys.stdout.write(f"{measure(row, workload, size, asked.routers)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()

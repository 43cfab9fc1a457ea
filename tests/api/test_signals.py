"""/signals and /silences: what is wrong, in whole sentences, and the verbs on it."""

from __future__ import annotations

from dataclasses import replace

import httpx2
import pytest
from tests.fakes.clock import VirtualClock
from tests.fakes.signals import look
from tests.fakes.world import World

from pdctl.client.admin import AdminClient
from pdctl.client.errors import ClientError
from pdctl.contract.signals import SilenceBody
from pdctl.domain.lifecycle import Phase
from pdctl.domain.signals.book import State
from pdctl.domain.signals.rules import RULES
from pdctl.domain.topology import SignalsSpec, WebhookSpec

SECRET = "https://hooks.example/T0/secret"


@pytest.fixture
def broken(world: World) -> World:
    """decode-0 was given up, and that has been seen."""
    fleet = world.state.fleet
    instances = [
        replace(one, phase=Phase.FAILED, message="bad flag") if one.id == "decode-0" else one
        for one in fleet.instances
    ]
    world.state.set_observed(instances, fleet.pairs, (), fleet.seq)
    look(world)
    return world


async def test_an_empty_list_says_what_is_watched(client: AdminClient) -> None:
    page = await client.signals()
    assert (page.items, page.firing, page.enabled, page.simulated) == ([], 0, True, True)
    assert [one.name for one in page.rules] == list(RULES)
    assert page.webhook.configured is False


async def test_a_signal_says_what_it_means_and_which_knob(
    broken: World, client: AdminClient
) -> None:
    page = await client.signals()
    assert page.firing == 1
    one = page.items[0]
    assert (one.id, one.state, one.about) == ("given_up:decode-0", State.FIRING, ["decode-0"])
    assert one.title == "An instance was given up"
    assert one.detail == "bad flag"
    assert "pdctl clear decode-0" in one.knob
    assert one.loud
    assert [one.state for one in page.items[1:]] == [State.PENDING] * (len(page.items) - 1)


async def test_acknowledged_and_found_in_the_history(
    broken: World, client: AdminClient, http: httpx2.AsyncClient
) -> None:
    done = await client.ack_signal("given_up:decode-0", "on it")
    assert done.ack is not None
    assert (done.ack.by, done.ack.note) == ("loopback", "on it")
    assert (await client.signals()).firing == 0
    (one,) = (await client.signal_history()).items
    assert (one.id, one.episode.partition("@")[0]) == ("given_up:decode-0", one.id)
    plain = await http.post("/api/v1/signals/given_up%3Adecode-0/ack")
    assert plain.status_code == 200
    with pytest.raises(ClientError, match="No signal 'stall:decode-0' fires"):
        await client.ack_signal("stall:decode-0")


async def test_silences_come_and_go(
    broken: World, client: AdminClient, clock: VirtualClock
) -> None:
    made = await client.silence(SilenceBody(rule="given_up", for_s=7200, note="upgrade"))
    page = await client.signals()
    assert page.firing == 0
    assert page.silences == [made]
    assert page.items[0].silence == made
    assert (made.until - made.at).total_seconds() == 7200
    assert await client.unsilence(made.id) == made
    assert (await client.signals()).firing == 1
    with pytest.raises(ClientError, match="There is no silence"):
        await client.unsilence(made.id)
    with pytest.raises(ClientError, match="Did you mean 'given_up'"):
        await client.silence(SilenceBody(rule="given_upp", for_s=60))


@pytest.mark.parametrize("body", [{"for_s": 1}, {"for_s": 60, "x": 1}, {}, {"for_s": 1e9}])
async def test_a_silence_that_cannot_be_is_refused(
    http: httpx2.AsyncClient, body: dict[str, float]
) -> None:
    assert (await http.post("/api/v1/silences", json=body)).status_code == 422


async def test_the_history_comes_page_by_page(broken: World, client: AdminClient) -> None:
    fleet = broken.state.fleet
    failed = [replace(one, phase=Phase.FAILED) for one in fleet.instances]
    broken.state.set_observed(failed, fleet.pairs, (), fleet.seq)
    look(broken)
    first = await client.signal_history(limit=2)
    rest = await client.signal_history(limit=50, before=first.next)
    seen = [one.episode for one in (*first.items, *rest.items)]
    assert len(seen) == len(set(seen)) == len(fleet.instances)
    assert rest.next is None


async def test_the_address_of_the_webhook_is_nowhere(
    world: World, http: httpx2.AsyncClient
) -> None:
    desired = world.state.fleet.desired
    hook = SignalsSpec(webhook=WebhookSpec(SECRET))
    world.state.set_desired(replace(desired, signals=hook))
    for path in ("/api/v1/signals", "/api/v1/fleet", "/api/v1/revisions", "/metrics"):
        answer = await http.get(path)
        assert answer.status_code == 200
        assert "hooks.example" not in answer.text
    assert (await http.get("/api/v1/signals")).json()["webhook"]["configured"] is True

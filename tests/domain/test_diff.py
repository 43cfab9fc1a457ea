"""Field by field: nothing that differs is left out, and going there and back is the same path."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pdctl.domain.diff import diff, flat, words
from pdctl.domain.ids import InstanceId, PoolName
from pdctl.domain.topology import (
    ConnectorSpec,
    EngineSpec,
    FleetSpec,
    Mode,
    Orders,
    PoolSpec,
    PortBand,
    Role,
    RouterSpec,
    SloSpec,
)
from tests.fakes.fleets import fleet, resized

WORD = st.text("ab-_.0", min_size=1, max_size=4)
VALUE = st.one_of(st.booleans(), st.integers(-3, 3), st.sampled_from(["", "true", "x y", "2"]))
ARGS = st.dictionaries(WORD, VALUE, max_size=3).map(lambda some: tuple(some.items()))
ENV = st.dictionaries(WORD, st.sampled_from(["", "a", "hf_123456789"]), max_size=3).map(
    lambda some: tuple(some.items())
)
LIST = st.lists(st.sampled_from(["0", "1", "0,1"]), max_size=2).map(tuple)
NAMES = st.lists(st.sampled_from(["prefill", "decode", "d2"]), unique=True, max_size=3)


def pools(names: list[str]) -> st.SearchStrategy[Any]:
    return st.tuples(
        *(
            st.builds(
                PoolSpec, name=st.just(PoolName(name)), role=st.sampled_from(Role),
                size=st.integers(0, 3), args=ARGS, env=ENV, devices=LIST, cores=LIST,
            )
            for name in names
        )
    )  # fmt: skip


FLEETS = st.builds(
    FleetSpec, name=WORD, model=WORD, served_name=WORD, mode=st.sampled_from(Mode),
    engine=st.builds(EngineSpec, args=ARGS, env=ENV),
    connector=st.builds(ConnectorSpec, lease_s=st.integers(1, 3), options=ARGS),
    pools=NAMES.flatmap(pools), router=st.builds(RouterSpec, retries=st.integers(0, 2)),
    http_ports=st.sampled_from([PortBand(1, 2), PortBand(1, 3)]),
    slos=st.sampled_from([(), (SloSpec("chat"),), (SloSpec("chat", ttft_ms=5.0),)]),
    revision=st.integers(0, 9), file_digest=WORD, source=WORD,
    orders=st.sampled_from([Orders(), Orders(drained=(InstanceId("decode-0"),))]),
)  # fmt: skip


@settings(max_examples=60)
@given(FLEETS, FLEETS)
def test_applied_to_the_one_it_gives_the_other(one: FleetSpec, other: FleetSpec) -> None:
    changes = diff(one, other)
    patched = flat(one)
    for change in changes:
        assert change.before == patched.get(change.path)
        if change.after is None:
            del patched[change.path]
        else:
            patched[change.path] = change.after
    assert patched == flat(other)
    back = {(change.path, change.after, change.before) for change in diff(other, one)}
    assert back == {(change.path, change.before, change.after) for change in changes}
    assert bool(changes) == (flat(one) != flat(other))


@settings(max_examples=60)
@given(FLEETS, FLEETS)
def test_words_name_every_change_and_no_secret(one: FleetSpec, other: FleetSpec) -> None:
    said = words(one, other)
    assert bool(said) == any(True for _ in diff(one, other)) or {p.name for p in one.pools} != {
        p.name for p in other.pools
    }
    assert "hf_123456789" not in " ".join(said)


@settings(max_examples=30)
@given(FLEETS)
def test_what_only_names_a_fleet_is_no_difference(one: FleetSpec) -> None:
    renamed = replace(one, revision=one.revision + 1, source="elsewhere", file_digest="other")
    assert diff(one, one) == diff(one, renamed) == ()
    assert diff(one, replace(one, model=one.model + "2"))[0].path == "model"


def test_the_words() -> None:
    now = fleet(1, 1)
    more = replace(
        resized(now, decode=2), mode=Mode.CHUNKED, http_ports=PortBand(1, 2),
        engine=replace(now.engine, env=(("HF_TOKEN", "one"), ("UCX_TLS", "tcp"))),
        orders=Orders(drained=(InstanceId("decode-0"),), leaving=((InstanceId("decode-1"), 4),)),
    )  # fmt: skip
    assert words(now, more) == [
        "mode pd -> chunked",
        "engine.env.HF_TOKEN nothing -> ***",
        "engine.env.UCX_TLS nothing -> tcp",
        "pools.decode.size 1 -> 2",
        "ports.http 18000-18039 -> 1-2",
        "decode-0 is kept out of rotation",
        "decode-1 (start 4) goes for good",
    ]
    assert [one.words for one in diff(now, more)][-2:] == words(now, more)[-2:]
    other = replace(more, engine=replace(now.engine, env=(("HF_TOKEN", "two"),)))
    assert "engine.env.HF_TOKEN changed" in words(more, other)
    pool = PoolSpec(PoolName("both"), Role.BOTH, 3)
    assert words(now, replace(now, pools=(*now.pools, pool))) == ["pool both added (3 both)"]
    assert words(now, replace(now, pools=now.pools[:1])) == ["pool decode removed"]


def test_fields_are_called_as_in_a_fleet_file_and_have_their_units() -> None:
    now = fleet(1, 1)
    more = replace(
        now, router=replace(now.router, queue_timeout_s=2.5, max_body_bytes=7),
        connector=replace(now.connector, lease_s=12, options=(("wait_s", 3),)),
        slos=(SloSpec("chat", ttft_ms=250.0),),
    )  # fmt: skip
    assert words(now, more) == [
        f"connector.lease {now.connector.lease_s} s -> 12 s",
        "connector.options.wait_s nothing -> 3",
        "router.queue_timeout 30 s -> 2.5 s",
        "router.max_body 33554432 bytes -> 7 bytes",
        "slo.chat.name nothing -> chat",
        "slo.chat.ttft nothing -> 250 ms",
    ]

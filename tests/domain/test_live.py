"""Live settings of the router: what may be switched, to what, and how it is told."""

from __future__ import annotations

import pytest

from pdctl.domain import live
from pdctl.domain.change import parse
from pdctl.domain.errors import OperatorError
from pdctl.domain.topology import RouterSpec, SloSpec


def test_what_is_switched_is_told() -> None:
    wanted = (("decode_policy", "cost"), ("pd_min_prompt_tokens", "256"), ("retries", 1))
    router, said = live.switched(RouterSpec(port=1), wanted)
    assert router == RouterSpec(port=1, decode_policy="cost", pd_min_prompt_tokens=256)
    assert said == [
        "router.decode_policy least_loaded -> cost", "router.pd_min_prompt_tokens 0 -> 256",
    ]  # fmt: skip
    assert live.switched(router, wanted) == (router, [])


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("prefil_policy", "cost", "Did you mean 'prefill_policy'?"),
        ("port", 1, "Settings: prefill_policy, decode_policy,"),
        ("retries", 11, "from 0 to 10"),
        ("retries", "²", "from 0 to 10"),
        ("retries", -1, "from 0 to 10"),
        ("max_inflight_per_instance", 0, "from 1 to 100000"),
        ("pd_min_prompt_tokens", "many", "from 0 to 10000000"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(name: str, value: live.Value, words: str) -> None:
    with pytest.raises(OperatorError) as refused:
        live.switched(RouterSpec(), ((name, value),))
    assert words in refused.value.hint


def test_an_unknown_policy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(OperatorError, match="no policy 'costs' for decode_policy") as refused:
        live.refuse_unknown(RouterSpec(decode_policy="costs"), ["least_loaded", "cost"])
    assert refused.value.hint == "Did you mean 'cost'? Policies: cost, least_loaded."


def test_an_objective_is_named_kept_and_ended() -> None:
    new, said = live.switched(RouterSpec(), (("slo", "chat"), ("admission", "refuse")))
    assert (new.slo, new.admission) == ("chat", "refuse")
    assert said == ["router.slo none -> chat", "router.admission off -> refuse"]
    assert live.switched(new, (("slo", "none"),))[1] == ["router.slo chat -> none"]
    live.refuse_unknown(new, ["least_loaded"], [SloSpec("chat", ttft_ms=500)])
    with pytest.raises(OperatorError, match="no SLO 'chat'") as refused:
        live.refuse_unknown(new, ["least_loaded"], [SloSpec("chap", ttft_ms=500)])
    assert refused.value.hint == "Did you mean 'chap'? SLOs: chap, none."
    with pytest.raises(OperatorError, match="Admission needs an SLO"):
        live.refuse_unknown(new, ["least_loaded"], [SloSpec("chat", tpot_ms=50)])
    with pytest.raises(OperatorError, match="'refused' is no value for admission") as refused:
        live.read("admission", "refused")
    assert refused.value.hint == "Did you mean 'refuse'? Values: off, queue, refuse."


def test_words_of_a_change_may_name_settings() -> None:
    change = parse(["prefill=2", "prefill_policy=cost", "retries=3"])
    assert change.sizes == (("prefill", 2),)
    assert change.router == (("prefill_policy", "cost"), ("retries", 3))
    with pytest.raises(OperatorError, match="no setting 'some_policy'"):
        parse(["some_policy=cost"])

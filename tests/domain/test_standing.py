"""Standing orders in words: every one that differs is told, both ways round."""

from __future__ import annotations

import pytest

from pdctl.domain.ids import InstanceId, PoolName
from pdctl.domain.standing import words
from pdctl.domain.topology import Orders

D0, D1 = InstanceId("decode-0"), InstanceId("decode-1")
PREFILL, DECODE = PoolName("prefill"), PoolName("decode")


@pytest.mark.parametrize(
    ("orders", "wanted", "no_more"),
    [
        (Orders(drained=(D0,)), "decode-0 is kept out of rotation", "decode-0 may work again"),
        (
            Orders(leaving=((D0, 2),)),
            "decode-0 (start 2) goes for good",
            "decode-0 (start 2): its departure is done or called off",
        ),
        (
            Orders(moved=((D0, 1, PREFILL),)),
            "decode-0 (start 1) works in pool prefill",
            "decode-0 (start 1) works in its own pool",
        ),
        (
            Orders(renew=((D0, 1),)),
            "decode-0 (start 1) is started anew",
            "decode-0 (start 1): its new start is done or called off",
        ),
    ],
)
def test_an_order_is_one_sentence_each_way(orders: Orders, wanted: str, no_more: str) -> None:
    assert words(Orders(), orders) == [wanted]
    assert words(orders, Orders()) == [no_more]
    assert words(orders, orders) == []


def test_what_stays_is_not_told_and_a_move_is_told_once() -> None:
    before = Orders(drained=(D0,), moved=((D1, 1, PREFILL),))
    after = Orders(drained=(D0, D1), moved=((D1, 1, DECODE),))
    assert words(before, after) == [
        "decode-1 is kept out of rotation",
        "decode-1 (start 1) works in pool decode",
    ]

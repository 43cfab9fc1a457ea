"""Usage, finish reasons and metrics of whole answers; what is absent stays unknown."""

from __future__ import annotations

from pdctl.routing.answers import Usage, engine_metrics, error_of, finish_of, usage_of


def test_usage_in_both_namings() -> None:
    details = {"cached_tokens": 4}
    chat = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": details}
    response = {"input_tokens": 9, "output_tokens": 2, "input_tokens_details": details}
    assert usage_of({"usage": chat}) == Usage(9, 2, 4)
    assert usage_of({"usage": response}) == Usage(9, 2, 4)
    assert usage_of({"type": "response.completed", "response": {"usage": response}}).prompt == 9
    assert usage_of({"usage": {"prompt_tokens": 9, "prompt_tokens_details": None}}) == Usage(9)


def test_absent_is_unknown_not_zero() -> None:
    assert usage_of({}) == Usage()
    assert usage_of({"usage": None}) == Usage()
    assert engine_metrics({"metrics": None}) == ()
    assert finish_of({"choices": [{}]}) == ""
    assert error_of({"id": "x"}) is None
    assert error_of([1]) is None


def test_metrics_are_verbatim() -> None:
    body: dict[str, object] = {"metrics": {"queue_time_ms": 1.5, "mean_itl_ms": None}}
    assert engine_metrics(body) == (("queue_time_ms", 1.5),)


def test_how_it_ended() -> None:
    assert finish_of({"choices": [{"finish_reason": "length"}]}) == "length"
    assert finish_of({"status": "incomplete"}) == "incomplete"
    assert error_of({"error": {"code": 404, "message": "no"}}) == (404, "no")
    assert error_of({"error": {"code": None, "message": "?"}}) == (500, "?")

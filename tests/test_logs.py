"""pdctl's own log: a line for people, an object for collectors."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from pdctl import logs
from pdctl.domain.errors import OperatorError


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)
    logging.captureWarnings(False)


def test_one_object_per_line_with_extras_and_trace() -> None:
    out = io.StringIO()
    logs.configure("info", "json", out)
    log = logging.getLogger("pdctl.somewhere")
    log.debug("not this")
    log.info("two\nlines of %s", "text", extra={"instance": "decode-0"})
    try:
        raise ValueError("x")
    except ValueError:
        log.exception("it failed")
    first, second = (json.loads(line) for line in out.getvalue().splitlines())
    assert first["message"] == "two\nlines of text"
    assert (first["level"], first["logger"]) == ("INFO", "pdctl.somewhere")
    assert first["instance"] == "decode-0"
    assert first["at"].endswith("+00:00")
    assert "ValueError: x" in second["trace"]


def test_a_line_for_people() -> None:
    out = io.StringIO()
    logs.configure("WARNING", "console", out)
    logging.getLogger("pdctl.gateway.plane").warning("slow")
    logging.getLogger("uvicorn.access").info("GET /")
    assert out.getvalue().endswith("WARNING gateway.plane: slow\n")
    assert out.getvalue().count("\n") == 1


@pytest.mark.parametrize(("level", "form"), [("LOUD", "json"), ("INFO", "xml")])
def test_unknown_words_are_refused(level: str, form: str) -> None:
    with pytest.raises(OperatorError, match="Known:"):
        logs.configure(level, form)

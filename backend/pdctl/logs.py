"""How pdctl's own log is written: one line for people, or one JSON object for collectors.

Law: to stderr, never to stdout; a message is data plus a sentence, and never a secret.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

from pdctl.domain.errors import OperatorError

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
FORMATS = ("console", "json")
_OWN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_COLORS = {"WARNING": "33", "ERROR": "31", "CRITICAL": "31;1", "DEBUG": "2"}
_CHATTY = ("aiosqlite", "alembic", "asyncio", "httpcore", "httpx", "httpx2", "uvicorn")


class JsonFormatter(logging.Formatter):
    """One JSON object per line: at, level, logger, message, extras, and the trace if any."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        body = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **{key: value for key, value in record.__dict__.items() if key not in _OWN},
        }
        if record.exc_info:
            body["trace"] = self.formatException(record.exc_info)
        return json.dumps(body, ensure_ascii=False, default=str)


class ConsoleFormatter(logging.Formatter):
    """Local time, level, short logger name, message."""

    def __init__(self, *, color: bool) -> None:
        super().__init__()
        self._color = color

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line, with its trace below."""
        at = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S")
        level = record.levelname.ljust(7)
        if self._color and record.levelname in _COLORS:
            level = f"\x1b[{_COLORS[record.levelname]}m{level}\x1b[0m"
        name = record.name.removeprefix("pdctl.")
        text = f"{at} {level} {name}: {record.getMessage()}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def configure(level: str = "INFO", form: str = "console", stream: TextIO | None = None) -> None:
    """Send all logging to `stream` (stderr) in `form`; OperatorError for an unknown word."""
    if level.upper() not in LEVELS:
        raise OperatorError("bad_log_level", f"There is no log level {level!r}.", _known(LEVELS))
    if form not in FORMATS:
        raise OperatorError("bad_log_format", f"There is no log format {form!r}.", _known(FORMATS))
    target = stream if stream is not None else sys.stderr
    handler = logging.StreamHandler(target)
    formatter: logging.Formatter = JsonFormatter()
    if form == "console":
        formatter = ConsoleFormatter(color=target.isatty())
    handler.setFormatter(formatter)
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    logging.captureWarnings(True)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def _known(words: tuple[str, ...]) -> str:
    return f"Known: {', '.join(words)}."

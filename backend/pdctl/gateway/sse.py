"""Reads an engine's event stream as it passes: which events carry tokens, how it ended.

Bytes go through unaltered, cut only between events: an event that is not whole yet waits for its
rest, so that a stream which dies can still be ended with an error that clients can parse. An event
is judged by searching its bytes (a quote inside a JSON string is always escaped, so `"role":` can
only be a key); at most two events of a stream are parsed, after its end. A stream's steps are alike
but for their text, so once one was judged its frame tells all others.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import orjson

from pdctl.routing.answers import Usage, engine_metrics, error_of, finish_of, usage_of

MAX_EVENT = 8 * 1024 * 1024
"""Bytes after which an unfinished event is passed on as it is, and the rest unread."""
_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINE = re.compile(rb"\r\n|\n|\r")
_TEXT = re.compile(
    rb'"(?:content|text|reasoning|reasoning_content|refusal)"\s*:\s*"[^"]'
    rb'|"tool_calls"\s*:\s*\[\s*\{'
)
_CHOICE = re.compile(rb'"choices"\s*:\s*\[\s*\{')
_ROLE = re.compile(rb'"role"\s*:\s*"')
_DELTA = re.compile(rb'"delta"\s*:\s*"[^"]')
_FINISH = re.compile(rb'"finish_reason"\s*:\s*"([a-z_]+)"')
_USAGE = re.compile(rb'"usage"\s*:\s*\{')
_METRICS = re.compile(rb'"metrics"\s*:\s*\{')
_ERROR = re.compile(rb'\s*\{\s*"error"\s*:\s*\{')
_TYPE = re.compile(rb'"type"\s*:\s*"((?:response\.[a-z_.]+)|error)"')
_SIGNATURE = b'"type":"signature_delta"'
_NONE = b"\0"
"""No event begins with it."""
_LAST = {b"response.completed", b"response.incomplete", b"response.failed"}


class Scan(NamedTuple):
    """What one feed made ready: whole events to pass on, and how many of them carry tokens."""

    ready: bytes
    tokens: int


class Scanner:
    """One stream. Pure: bytes in, facts out; whoever feeds it keeps the time."""

    __slots__ = (
        "_blind", "_messages", "_metrics", "_responses", "_step_end", "_step_start", "_tail",
        "_usage", "closed", "committed", "done", "error", "finish_reason",
    )  # fmt: skip

    def __init__(self, endpoint: str) -> None:
        self._responses = endpoint == "/v1/responses"
        self._messages = endpoint == "/v1/messages"
        self._tail = b""
        self._blind = False
        self._usage = b""
        self._metrics = b""
        self._step_start = self._step_end = _NONE
        self.committed = False
        """Something came that the client must see now; before that another engine may take over."""
        self.closed = False
        """The stream said that it is complete ([DONE], or the last event of a response)."""
        self.done = False
        """[DONE] was seen: by the format nothing follows it."""
        self.error: tuple[int, str] | None = None
        """(code, message) of an error event."""
        self.finish_reason = ""

    def feed(self, data: bytes) -> Scan:
        """Take the next bytes, cut anywhere."""
        if self._blind:
            return Scan(data, 0)
        seen = max(0, len(self._tail) - 3)
        whole = self._tail + data if self._tail else data
        end = _last_end(whole, seen)
        if end == 0:
            if len(whole) < MAX_EVENT:
                self._tail = whole
                return Scan(b"", 0)
            self._blind, self.committed, self._tail = True, True, b""
            return Scan(whole, 0)
        ready = whole if end == len(whole) else whole[:end]
        self._tail = whole[end:]
        return Scan(ready, self._read(ready))

    def finish(self) -> Scan:
        """The stream ended: an event without its blank line counts if it is whole."""
        rest, self._tail = self._tail, b""
        _, data = _fields(rest)
        if data.strip() != b"[DONE]" and not _parsed(data):
            return Scan(b"", 0)
        tokens = self._read(rest)
        return Scan(rest, tokens) if self.closed else Scan(b"", 0)

    def usage(self) -> Usage:
        """The last usage that the stream carried."""
        return usage_of(_parsed(self._usage))

    def metrics(self) -> tuple[tuple[str, float], ...]:
        """The engine's metrics of this request, from the last event that carried them."""
        return engine_metrics(_parsed(self._metrics))

    def _read(self, ready: bytes) -> int:
        blocks = _END.split(ready) if b"\r" in ready else ready.split(b"\n\n")
        tokens = 0
        for block in blocks:
            known = block.startswith(self._step_start) and block.endswith(self._step_end)
            if known or (block and self._event(block)):
                tokens += 1
        return tokens

    def _event(self, block: bytes) -> bool:
        """Note one event; True when it stands for tokens."""
        if block.startswith(b"data:") and b"\n" not in block and b"\r" not in block:
            name, data = b"", block[5:]
        else:
            name, data = _fields(block)
        if not data:
            self.committed = True
            return False
        if self._responses:
            return self._response_event(name, data)
        if self._messages:
            return self._message_event(name, data)
        return self._completion_event(data)

    def _completion_event(self, data: bytes) -> bool:
        if len(data) < 16 and data.strip() == b"[DONE]":
            self.closed = self.done = True
            return False
        if b'"error"' in data[:16] and _ERROR.match(data):
            return self._note_error(data)
        if _is_plain_step(data):
            self._learn(data)
            self.committed = True
            return True
        self._note_numbers(data)
        aborted = False
        if finish := _FINISH.search(data):
            self.finish_reason = finish[1].decode()
            aborted = self.finish_reason == "abort"
        token = _TEXT.search(data) is not None or (
            not aborted and _CHOICE.search(data) is not None and _ROLE.search(data) is None
        )
        self.committed |= token or (finish is not None and not aborted)
        return token

    def _learn(self, data: bytes) -> None:
        """What stands before and after the text of a step."""
        for key in (b'"delta":{"content":"', b'"text":"'):
            at = data.find(key)
            if at >= 0:
                self._step_start = b"data:" + data[: at + len(key)]
                self._step_end = data[data.rindex(b'"finish_reason":null') :]
                return

    def _response_event(self, name: bytes, data: bytes) -> bool:
        if not name and (found := _TYPE.search(data)):
            name = found[1]
        if name == b"error" or (not name and _ERROR.match(data)):
            return self._note_error(data)
        if data.strip() == b"[DONE]":
            self.closed = True
            return False
        self.committed = True
        if name in _LAST:
            self.closed = True
            response = _parsed(data).get("response")
            status = response.get("status") if isinstance(response, dict) else None
            self.finish_reason = str(status or name.removeprefix(b"response.").decode())
            self._note_numbers(data)
        return name.endswith(b".delta") and _DELTA.search(data) is not None

    def _message_event(self, name: bytes, data: bytes) -> bool:
        """vLLM tells of an aborted message with no stop_reason, or ends it with no token."""
        name = name or str(_parsed(data).get("type")).encode()
        if name == b"content_block_delta":
            token = _SIGNATURE not in data
            self.committed |= token
            return token
        if name == b"error":
            return self._note_error(data)
        if name == b"message_stop":
            self.closed = True
        elif name in (b"message_start", b"message_delta"):
            self._usage = data
            if name == b"message_delta":
                end = _parsed(data)
                self.finish_reason = finish_of({**_inner(end.get("delta")), "type": "message"})
                made = _inner(end.get("usage")).get("output_tokens")
                self.committed |= bool(made) and self.finish_reason != "abort"
        return False

    def _note_numbers(self, data: bytes) -> None:
        if b'"usage"' in data and _USAGE.search(data):
            self._usage = data
        if b'"metrics"' in data and _METRICS.search(data):
            self._metrics = data

    def _note_error(self, data: bytes) -> bool:
        body = _parsed(data)
        code, message = error_of(body) or (500, str(body.get("message") or ""))
        self.error = (code, message)
        if code < 500:
            self.committed = True
        return False


def before_done(ready: bytes) -> bytes:
    """Whole events without the [DONE] that ends them."""
    at = ready.rfind(b"[DONE]")
    return ready[: ready.rfind(b"data:", 0, at)] if at >= 0 else ready


def _is_plain_step(data: bytes) -> bool:
    """Whether this is what nearly every event of a completion is, in vLLM's compact JSON.

    vLLM sends a choice for every step that generated, so it stands for at least one token even
    when its text is empty (held back until a character, or a possible stop string, is whole).
    """
    return (
        b'"finish_reason":null' in data
        and b'"choices":[{' in data
        and b'"role":' not in data
        and b'"usage":{' not in data
        and b'"finish_reason":"' not in data
    )


def _last_end(data: bytes, start: int) -> int:
    """Offset after the last blank line at or after `start`; 0 when there is none."""
    if b"\r" not in data:
        at = data.rfind(b"\n\n", start)
        return at + 2 if at >= 0 else 0
    end = 0
    for found in _END.finditer(data, start):
        end = found.end()
    return end


def _fields(block: bytes) -> tuple[bytes, bytes]:
    """(event name, data) of an event with several lines; comments leave both empty."""
    name, data = b"", []
    for line in _LINE.split(block):
        if line.startswith(b"data:"):
            data.append(line[5:])
        elif line.startswith(b"event:"):
            name = line[6:].strip()
    return name, b"\n".join(data)


def _inner(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _parsed(data: bytes) -> dict[str, object]:
    try:
        body = orjson.loads(data) if data else {}
    except orjson.JSONDecodeError:
        return {}
    return body if isinstance(body, dict) else {}

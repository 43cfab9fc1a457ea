"""How a long provisioning shows itself: a phase, its elapsed time, the tool's newest line.

On a terminal one line is redrawn; elsewhere (CI, a log file) a new line comes every few seconds, so
that a reader can always tell work from a hang.
"""

import shutil
import sys
import time
from typing import Protocol, TextIO

REDRAW_SECONDS = 0.2
REPEAT_SECONDS = 5.0


class Progress(Protocol):
    """What provisioning tells; `tick` comes a few times a second while something runs."""

    def phase(self, name: str) -> None:
        """A new phase began."""

    def tick(self, detail: str) -> None:
        """The phase goes on; detail is the newest line of the tool at work, or empty."""

    def note(self, sentence: str) -> None:
        """Something worth keeping on the screen."""

    def done(self) -> None:
        """All ended, well or not."""


class SilentProgress:
    """Tells nobody."""

    def phase(self, name: str) -> None:
        """Ignored."""

    def tick(self, detail: str) -> None:
        """Ignored."""

    def note(self, sentence: str) -> None:
        """Ignored."""

    def done(self) -> None:
        """Ignored."""


class StderrProgress:
    """Writes to stderr, or to the stream given; times are seconds since the run began."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """Decides once whether the stream is a terminal."""
        self._stream = stream if stream is not None else sys.stderr
        self._terminal = self._stream.isatty()
        self._started = self._phase_started = time.monotonic()
        self._phase = ""
        self._shown = float("-inf")

    def phase(self, name: str) -> None:
        """Closes the phase before with its time and opens the next."""
        self._close_phase()
        self._phase, self._phase_started = name, time.monotonic()
        self._shown = float("-inf")
        self.tick("")

    def tick(self, detail: str) -> None:
        """Redraws the terminal's line, or writes a line when the last one is some seconds old."""
        now = time.monotonic()
        if now - self._shown < (REDRAW_SECONDS if self._terminal else REPEAT_SECONDS):
            return
        self._shown = now
        text = f"[{now - self._started:6.1f} s] {self._phase}"
        if detail:
            text += f": {detail}"
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1
            self._stream.write("\r\x1b[K" + text[:width])
        else:
            self._stream.write(text[:200] + "\n")
        self._stream.flush()

    def note(self, sentence: str) -> None:
        """Writes a whole line of its own."""
        self._clear()
        self._stream.write(sentence + "\n")
        self._stream.flush()

    def done(self) -> None:
        """Closes the last phase."""
        self._close_phase()
        self._phase = ""

    def _close_phase(self) -> None:
        if self._phase:
            now = time.monotonic()
            took = now - self._phase_started
            self.note(f"[{now - self._started:6.1f} s] {self._phase}: {took:.1f} s")

    def _clear(self) -> None:
        if self._terminal:
            self._stream.write("\r\x1b[K")

"""What an ended process died of, read from its exit code and last lines: pure.

Only what is certain is named: a configuration error would fail the same way for ever, a lost port
race is nobody's failure. Everything else is simply an exit.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

from pdctl.domain.instance import ExitInfo
from pdctl.domain.lifecycle import Reason

_PORT = re.compile(r"address already in use|errno 98\b|EADDRINUSE", re.IGNORECASE)
_CONFIG = re.compile(
    r"""
      \berror:\ (argument|unrecognized\ arguments|the\ following\ arguments|invalid|ambiguous)
    | \bpydantic(_core)?\.[\w.]*ValidationError | \b\d+\ validation\ errors?\ for\b
    | less\ than\ desired\ GPU\ memory\ utilization | Free\ memory\ on\ device
    | is\ not\ a\ local\ folder\ and\ is\ not\ a\ valid\ model\ identifier
    | Repository\ Not\ Found | Invalid\ repository\ ID | RepositoryNotFoundError
    | No\ such\ file\ or\ directory:\ .*(config\.json|python) | No\ module\ named
    | Model\ architectures\ .*\ (are|is)\ not\ supported
    | larger\ than\ the\ maximum\ number\ of\ tokens\ that\ can\ be\ stored
    | is\ greater\ than\ the\ derived\ max_model_len
    | No\ available\ memory\ for\ the\ cache\ blocks
    | CUDA\ error:\ invalid\ device\ ordinal | No\ CUDA\ GPUs\ are\ available
    """,
    re.IGNORECASE | re.VERBOSE,
)

_ENDED_BY_OTHERS = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT})
"""Signals that come from outside (the kernel's out-of-memory killer too), not from the engine."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a process ended, as a reason for filters and a sentence for people."""

    reason: Reason
    message: str


def judge(exit_: ExitInfo | None, *, was_up: bool) -> Verdict:
    """The verdict on a process that ended unasked; `was_up`: it had served before it ended."""
    if exit_ is None:
        return Verdict(Reason.EXITED, "its process is gone and left no record of its end")
    how = describe(exit_)
    if exit_.signal in _ENDED_BY_OTHERS:
        return Verdict(Reason.EXITED, _before(how, exit_.first_error))
    if said := _find(_PORT, exit_):
        return Verdict(Reason.PORT_RACE, f"another process took its port first: {said}")
    if not was_up:
        said = _find(_CONFIG, exit_)
        if said or exit_.code == 2:
            said = said or exit_.first_error or _last(exit_)
            return Verdict(Reason.CONFIG_ERROR, f"the engine refuses its configuration: {said}")
    said = exit_.first_error or ("" if exit_.signal else _last(exit_))
    return Verdict(Reason.EXITED, f"{how}: {said}" if said else how)


def describe(exit_: ExitInfo) -> str:
    """How it ended: by which signal, or with which code."""
    if exit_.signal is not None:
        known = exit_.signal in set(signal.Signals)
        name = f" ({signal.Signals(exit_.signal).name})" if known else ""
        return f"killed by signal {exit_.signal}{name}"
    return "ended" if exit_.code is None else f"exited with code {exit_.code}"


def _before(how: str, error: str) -> str:
    """A signal is the cause; what the log complained of was before it, perhaps long before."""
    return f"{how}; the first error in its log: {error}" if error else how


def _find(pattern: re.Pattern[str], exit_: ExitInfo) -> str:
    told = exit_.code is None and exit_.signal is None and exit_.first_error
    lines = (exit_.first_error, *(() if told else reversed(exit_.last_lines)))
    return next((line.strip() for line in lines if pattern.search(line)), "")


def _last(exit_: ExitInfo) -> str:
    return next((line.strip() for line in reversed(exit_.last_lines) if line.strip()), "")

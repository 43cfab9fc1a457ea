"""What each verb says before it is done, and the same verb on the command line."""

from __future__ import annotations

from pdctl.client.errors import ClientError
from pdctl.contract.plans import OperationView
from pdctl.contract.resources import CommandView, InstanceView
from pdctl_console.styled import Line, clean, plain, told


def clear(one: InstanceView, url: str) -> list[Line]:
    """What clearing a failure does."""
    return [
        ((clean(one.id), "strong"), (f" is {one.phase.value} after {one.failures} failures", "")),
        (),
        plain("Its failures are forgotten and it is started again at once."),
        (),
        told("The same elsewhere:", "muted"),
        told(f"curl -X POST {url}/api/v1/instances/{one.id}/clear", "muted"),
    ]


def cancel(one: OperationView, url: str) -> list[Line]:
    """What cancelling an operation does."""
    return [
        ((clean(one.id), "strong"), (f", {one.progress} done", "")),
        *(plain(said) for said in one.change),
        (),
        plain(
            "The fleet that was wanted before is wanted again: what still drains returns to work, "
            "what was started leaves."
        ),
        (),
        told("The same elsewhere:", "muted"),
        told(f"pdctl cancel {one.id}", "muted"),
        told(f"curl -X POST {url}/api/v1/operations/{one.id}/cancel", "muted"),
    ]


def refusal(error: ClientError) -> list[Line]:
    """A refusal in the server's own words, with its hint and its code."""
    problem = error.problem
    lines = [told(problem.detail or problem.title, "bad")]
    if problem.hint:
        lines += [(), plain(problem.hint)]
    status = f"HTTP {problem.status}, " if problem.status else ""
    return [*lines, (), told(f"{status}{problem.code or problem.title}", "muted")]


def command(view: CommandView) -> list[Line]:
    """Environment and arguments, to read and to copy."""
    env = [(((f"{clean(name)}=", "muted")), (clean(value), "")) for name, value in view.env.items()]
    argv = view.argv
    rows = [*argv[:1], *_pairs(argv[1:])]
    shown = [
        plain(f"{'' if at == 0 else '    '}{row}{_more(at, rows)}") for at, row in enumerate(rows)
    ]
    return [told("Environment", "strong"), *env, (), told("Command", "strong"), *shown]


def _more(at: int, rows: list[str]) -> str:
    return " \\" if at < len(rows) - 1 else ""


def _pairs(argv: list[str]) -> list[str]:
    """An option and its value on one row."""
    rows: list[str] = []
    for word in argv:
        if rows and rows[-1].startswith("-") and " " not in rows[-1] and not word.startswith("-"):
            rows[-1] += f" {word}"
        else:
            rows.append(word)
    return rows

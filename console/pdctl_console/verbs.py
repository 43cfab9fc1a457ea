"""What each verb says before it is done, and the same verb on the command line."""

from __future__ import annotations

from collections.abc import Sequence

from pdctl.client.admin import AdminClient
from pdctl.client.errors import ClientError
from pdctl.contract import asks
from pdctl.contract.asks import Ask
from pdctl.contract.keys import KeyPage
from pdctl.contract.resources import CommandView
from pdctl.contract.signals import SilenceBody
from pdctl_console.styled import Line, clean, plain, told

DONE = {
    "clear": "{0} is started again.", "cancel": "{0} is taken back.", "apply": "{0} is under way.",
    "ack_signal": "{0} is yours.", "silence": "{0} is quiet.", "unsilence": "{0} is ended.",
    "mark": "This moment is {0}.", "golden": "The answer is in Events.",
}  # fmt: skip
"""Said once a verb that needs no plan was carried out."""


async def perform(client: AdminClient, ask: Ask) -> object:
    """Carry out what needs no plan, by the one call that it is."""
    match ask.verb.name, ask.about:
        case "clear", (one,):
            return await client.clear(one)
        case "cancel", (one,):
            return await client.cancel(one)
        case "apply", (one,):
            return await client.apply(one)
        case "ack_signal", (one,):
            return await client.ack_signal(one)
        case "silence", _:
            return await client.silence(SilenceBody.model_validate(ask.body))
        case "unsilence", (one,):
            return await client.unsilence(one)
        case "mark", (one,):
            return await client.mark(one)
        case "golden", _:
            return await client.check_golden()
    raise AssertionError(ask.verb.name)


def asked(ask: Ask, client: AdminClient, about: Sequence[Line] = ()) -> list[Line]:
    """What a dialog says before a verb: whom it concerns, its effect, the same elsewhere."""
    return [*about, *([()] if about else []), plain(ask.verb.effect), (), *same(ask, client)]


def same(ask: Ask, client: AdminClient, plan: str = "") -> list[Line]:
    """How the same is said in a shell; `plan` is what the call made, which is then applied."""
    url, bearer = client.base_url, client.authorised
    lines = [told("The same elsewhere:", "muted"), plain(ask.shell(url))]
    lines.append(told(ask.curl(url, bearer=bearer), "muted"))
    if plan:
        lines.append(told(asks.apply(plan).curl(url, bearer=bearer), "muted"))
    return lines


def refusal(error: ClientError) -> list[Line]:
    """A refusal in the server's own words, with its hint and its code."""
    problem = error.problem
    lines = [told(problem.detail or problem.title, "bad")]
    if problem.hint:
        lines += [(), plain(problem.hint)]
    status = f"HTTP {problem.status}, " if problem.status else ""
    return [*lines, (), told(f"{status}{problem.code or problem.title}", "muted")]


def clients(page: KeyPage) -> list[Line]:
    """Whose API keys the front door takes, each with its limits."""
    if not page.required:
        return [plain("The front door takes everybody: router.keys_file names no file.")]
    if page.note:
        return [told(page.note, "bad")]
    lines: list[Line] = []
    for one in page.items:
        limits = [f"{one.requests_per_minute} requests/min"] if one.requests_per_minute else []
        limits += [f"{one.concurrent} at a time"] if one.concurrent else []
        said = ", ".join([*limits, *one.models]) or "no limits"
        lines.append(((f"{clean(one.name):<24}", "strong"), (clean(said), "muted")))
    return lines or [told("There are no keys: nobody is let in.", "warn")]


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

"""`pdctl init`: a fleet file to start from, after a look at this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdctl.cli.terminal import ExitCode, Stop, Terminal
from pdctl.cli.verb import verb

if TYPE_CHECKING:
    from pdctl.cli.draft import Draft, Machine, Wishes

EXAMPLES = """
  pdctl init                                     writes fleet.toml
  pdctl init --model ~/models/qwen3-8b           as many GPUs for each instance as it needs
  pdctl init --prefill 1 --decode 3 big.toml
  pdctl init --engine ~/engine/bin/python
  pdctl init --simulated -                       to stdout, without vLLM
"""


FileArg = Annotated[Path, typer.Argument(metavar="[FILE]", help='Where to write; "-" is stdout.')]
Model = Annotated[str | None, typer.Option("--model", help="A folder, or a hub name.")]
EngineAt = Annotated[str | None, typer.Option("--engine", help="The Python of vLLM's environment.")]
Prefill = Annotated[int | None, typer.Option(min=1, max=512, help="Prefill instances.")]
Decode = Annotated[int | None, typer.Option(min=1, max=512, help="Decode instances.")]
Width = Annotated[int | None, typer.Option(min=1, max=64, help="GPUs for each instance.")]
Simulated = Annotated[bool, typer.Option("--simulated", help="Engines that compute nothing.")]
Force = Annotated[bool, typer.Option("--force", help="Write over FILE.")]


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @verb(app, "init", examples=EXAMPLES, remote=False)
    def init(  # noqa: PLR0917 - the options of a verb
        terminal: Terminal,
        file: FileArg = Path("fleet.toml"),
        model: Model = None,
        engine: EngineAt = None,
        prefill: Prefill = None,
        decode: Decode = None,
        tensor_parallel: Width = None,
        simulated: Simulated = False,
        force: Force = False,
    ) -> ExitCode | None:
        """Write a first fleet file.

        Looks at GPUs, cores, memory and vLLM environments, chooses, and says why. Starts nothing.
        """
        from pdctl.cli import sight
        from pdctl.cli.draft import Wishes

        if str(file) != "-" and file.exists() and not force:
            raise Stop(ExitCode.CONFLICT, f"{file} is there already. Name another, or --force.")
        terminal.say("Looking at this machine ...")
        weights = sight.weights(model) if model else None
        wishes = Wishes(model, weights, engine, prefill, decode, tensor_parallel, simulated)
        _write(terminal, file, sight.machine(engine), wishes)
        return None


def _write(terminal: Terminal, file: Path, machine: Machine, wishes: Wishes) -> None:
    from pdctl.cli.draft import TooFewError, draft, render

    try:
        made = draft(machine, wishes)
    except TooFewError as error:
        raise Stop(ExitCode.USAGE, str(error)) from error
    if str(file) == "-":
        terminal.raw(render(made))
        _tell(terminal, machine, made, "")
        return
    file.write_text(render(made), encoding="utf-8")
    _tell(terminal, machine, made, str(file))


def _tell(terminal: Terminal, machine: Machine, made: Draft, file: str) -> None:
    if terminal.json and file:
        terminal.document(
            {"file": file, "found": found(machine), "why": made.why, "todo": made.todo}
        )
        return
    for line in (*found(machine), *made.why):
        terminal.say(f"  {line}")
    if file:
        terminal.data(f"{file} is written.")
    for number, line in enumerate((*made.todo, *_next(file)), 1):
        terminal.say(f"{number}. {line}")


def _next(file: str) -> tuple[str, ...]:
    if not file:
        return ()
    return (
        f"Read it, then: pdctl validate {file}",
        f"Is this machine fit: pdctl doctor --file {file}",
        f"Run it: pdctl serve --file {file}",
    )


def found(machine: Machine) -> tuple[str, ...]:
    """What the machine has, a line each."""
    gpus = [f"GPU {one.index}: {one.name}, {one.total_mib // 1024} GiB" for one in machine.gpus]
    engines = [
        f"vLLM {one.vllm}{' for CPU' if one.cpu else ''}, "
        f"{f'NIXL {one.nixl}' if one.nixl else 'no NIXL'}: {one.python}"
        for one in machine.engines
    ]
    memory = machine.memory_bytes / 2**30
    return (
        f"{len(machine.cores)} cores, {memory:.0f} GiB of memory available",
        *(gpus or ["no GPU"]),
        *(engines or ["no vLLM environment"]),
    )

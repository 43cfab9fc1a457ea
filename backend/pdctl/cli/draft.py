"""A first fleet file from what a machine has. Pure: a machine and wishes in, text and reasons out.

Law: what it writes is valid, says why each number is what it is, and promises no gain from P/D.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

GIB = 2**30
CPU_INSTANCE_BYTES = 4 * GIB
"""A CPU instance with a tiny model was seen to take 3 GiB; one is left to grow into."""
WEIGHTS_SHARE = 0.6
"""Of a device's memory, at most, for weights: the rest is KV cache and activations."""
_EXAMPLE_MODEL = "Qwen/Qwen3-8B"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device as nvidia-smi lists it; memory in MiB."""

    index: str
    name: str
    free_mib: int
    total_mib: int


@dataclass(frozen=True, slots=True)
class Engine:
    """An interpreter that has vLLM."""

    python: str
    vllm: str
    nixl: str
    """Empty: no NIXL in that environment."""
    cpu: bool
    """vLLM for CPU."""
    managed: bool = False
    """The one that `pdctl demo` builds, with its tiny model."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What was found; `cores` are those that this process may use."""

    cores: tuple[int, ...]
    memory_bytes: int
    """Available now."""
    gpus: tuple[Gpu, ...] = ()
    engines: tuple[Engine, ...] = ()
    router_port: int = 8000
    """A free one."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the operator said; None: chosen here."""

    model: str | None = None
    weights_bytes: int | None = None
    """Of a model that lies on this disk."""
    python: str | None = None
    prefill: int | None = None
    decode: int | None = None
    tensor_parallel: int | None = None
    simulated: bool = False


class TooFewError(ValueError):
    """More was wished for than there is; the message says what there is."""


@dataclass(frozen=True, slots=True)
class _Pool:
    name: str
    size: int
    where: str = ""
    """devices | cores"""
    slots: tuple[str, ...] = ()
    shutdown: str = ""
    args: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Draft:
    """The choices, why they were made, and what has to be done before the file can be served."""

    name: str
    model: str
    served_name: str
    mode: str
    python: str
    """Empty: simulated engines."""
    pools: tuple[_Pool, ...]
    port: int
    args: Mapping[str, str | float | bool] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    lease: str = ""
    buffer_device: str = ""
    why: tuple[str, ...] = ()
    todo: tuple[str, ...] = ()


def draft(machine: Machine, wishes: Wishes) -> Draft:
    """The fleet for this machine.

    Raises TooFewError when the wished-for pools need more devices, cores or memory than there are.
    """
    if wishes.simulated:
        return _simulated(machine, wishes)
    engine = _engine(machine, wishes)
    if machine.gpus and (engine is None or not engine.cpu):
        return _on_gpus(machine, wishes, engine)
    return _on_cores(machine, wishes, engine)


def _engine(machine: Machine, wishes: Wishes) -> Engine | None:
    """The named one, else the best found: for what the machine has, with NIXL, the demo's last."""
    if wishes.python is not None:
        known = (one for one in machine.engines if one.python == wishes.python)
        return next(known, Engine(wishes.python, "", "", cpu=not machine.gpus))
    fit = [one for one in machine.engines if one.cpu is not bool(machine.gpus)]
    return max(fit, key=lambda one: (bool(one.nixl), not one.managed), default=None)


def _simulated(machine: Machine, wishes: Wishes) -> Draft:
    pools = (_Pool("prefill", wishes.prefill or 1), _Pool("decode", wishes.decode or 2))
    return Draft(
        "simulated", wishes.model or "simulated/tiny", "tiny", "pd", "", pools, machine.router_port,
        why=("Simulated engines: nothing is computed, and every face says so.",),
    )  # fmt: skip


def _on_gpus(machine: Machine, wishes: Wishes, engine: Engine | None) -> Draft:
    gpus = machine.gpus
    width, because = _width(gpus, wishes)
    names = [gpu.index for gpu in gpus]
    slots = tuple(
        ",".join(names[at : at + width]) for at in range(0, len(names) - width + 1, width)
    )
    what = _counted(len(slots), "instance")
    why = [f"{_counted(len(gpus), 'GPU')} ({gpus[0].name}), {because}: {what} at most."]
    if len(slots) == 1 and not (wishes.prefill or wishes.decode):
        mode = "chunked"
        pools: tuple[_Pool, ...] = (_Pool("all", 1, "devices", slots, "1m"),)
        why.append("One instance computes both phases; P/D needs a second one.")
    else:
        mode, (prefill, decode) = "pd", _split(len(slots), wishes)
        if not slots or prefill + decode > len(slots):
            raise TooFewError(
                f"{prefill} + {decode} instances of {_counted(width, 'GPU')} each do not fit on "
                f"{_counted(len(gpus), 'GPU')}."
            )
        why.append(_told(prefill, decode, len(slots)))
        pools = (
            _Pool("prefill", prefill, "devices", slots[:prefill], "1m",
                  {"max-num-batched-tokens": 16384, "max-num-seqs": 32}),
            _Pool("decode", decode, "devices", slots[prefill:], "2m",
                  {"max-num-batched-tokens": 4096, "max-num-seqs": 256}),
        )  # fmt: skip
    model = wishes.model or _EXAMPLE_MODEL
    args: dict[str, str | float | bool] = {"dtype": "bfloat16", "gpu-memory-utilization": 0.9}
    if width > 1:
        args["tensor-parallel-size"] = width
    return Draft(
        "gpus", model, _served(model), mode, engine.python if engine else "~/engine/bin/python",
        pools, machine.router_port, args, {"UCX_TLS": "cuda_ipc,cuda_copy,tcp,sm,self"},
        "30s", "cuda", tuple(why), _todo(engine, wishes, gpu=True),
    )  # fmt: skip


def _on_cores(machine: Machine, wishes: Wishes, engine: Engine | None) -> Draft:
    prefill, decode = wishes.prefill or 1, wishes.decode or 1
    both, cores = prefill + decode, machine.cores
    needed = both * CPU_INSTANCE_BYTES
    why = ["No GPU is used: vLLM for CPU shows how P/D works, and not how fast it is."]
    if both > 2 and (both > len(cores) or needed > machine.memory_bytes):
        raise TooFewError(
            f"{both} CPU instances want a core each and about {needed // GIB} GiB; there are "
            f"{_counted(len(cores), 'core')} and {machine.memory_bytes // GIB} GiB available."
        )
    if needed > machine.memory_bytes:
        why.append(f"Memory is short: {both} instances take about {needed // GIB} GiB.")
    sets = _shares(cores, both)
    shared = "" if sets else ": they share them"
    why.append(f"{_counted(len(cores), 'core')} for {both} instances{shared}.")
    ours = engine is None or engine.managed
    args: dict[str, str | float | bool] = {"dtype": "float32", "enforce-eager": True}
    env = {
        "VLLM_CPU_KVCACHE_SPACE": "1", "TORCH_COMPILE_DISABLE": "1", "UCX_TLS": "tcp,sm,self",
        "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1",
    }  # fmt: skip
    if ours:
        env |= {"HF_HUB_OFFLINE": "1", "PDCTL_NIXL_PROGRESS_DELAY_US": "100"}
    model = wishes.model or ("$PDCTL_MODEL" if ours else _EXAMPLE_MODEL)
    pools = (
        _Pool("prefill", prefill, "cores" if sets else "", sets[:prefill], "30s"),
        _Pool("decode", decode, "cores" if sets else "", sets[prefill:], "30s"),
    )
    return Draft(
        "cpu", model, _served(model), "pd",
        "$PDCTL_ENGINE" if engine is None or engine.managed else engine.python,
        pools, machine.router_port, args, env, "10s", "cpu", tuple(why),
        _todo(engine, wishes, gpu=False),
    )  # fmt: skip


def _width(gpus: Sequence[Gpu], wishes: Wishes) -> tuple[int, str]:
    """How many GPUs an instance takes, and why."""
    if wishes.tensor_parallel:
        return wishes.tensor_parallel, f"{wishes.tensor_parallel} for each instance as asked"
    if wishes.weights_bytes is None:
        return 1, "one for each instance (set tensor-parallel-size for a larger model)"
    room = min(gpu.total_mib for gpu in gpus) * 2**20 * WEIGHTS_SHARE
    width = next(2**n for n in count() if 2**n * room >= wishes.weights_bytes)
    size = wishes.weights_bytes / GIB
    return width, f"{width} for each instance, for {size:.1f} GiB of weights leave room for KV then"


def _split(slots: int, wishes: Wishes) -> tuple[int, int]:
    if wishes.prefill and wishes.decode:
        return wishes.prefill, wishes.decode
    if wishes.prefill:
        return wishes.prefill, max(1, slots - wishes.prefill)
    if wishes.decode:
        return max(1, slots - wishes.decode), wishes.decode
    return max(1, slots // 2), max(1, slots - max(1, slots // 2))


def _told(prefill: int, decode: int, slots: int) -> str:
    spare = slots - prefill - decode
    more = f"; {spare} more may join decode" if spare else ""
    return (
        f"{prefill}P{decode}D{more}: a start. The right ratio shows under your own traffic, and "
        "`pdctl move` and `pdctl resize` change it live."
    )


def _shares(cores: Sequence[int], instances: int) -> tuple[str, ...]:
    """Equal shares of the cores, as cpuset lists; none when there are fewer than instances."""
    each = len(cores) // instances
    if not each:
        return ()
    cut = [cores[at * each : (at + 1) * each] for at in range(instances)]
    return tuple(",".join(map(str, share)) for share in cut)


def _todo(engine: Engine | None, wishes: Wishes, *, gpu: bool) -> tuple[str, ...]:
    result = []
    if engine is None and gpu:
        result.append(
            "No vLLM was found for these GPUs: "
            "python -m venv ~/engine && ~/engine/bin/pip install vllm nixl"
        )
    elif engine is None:
        result.append("No vLLM was found: `pdctl demo` (or `make engine`) builds one for CPU.")
    elif engine.vllm and not engine.nixl:
        result.append(f"There is no NIXL beside vLLM: {engine.python} -m pip install nixl")
    if wishes.model is None and (gpu or (engine is not None and not engine.managed)):
        result.append(f"Set fleet.model (and served_name): {_EXAMPLE_MODEL} is an example.")
    return tuple(result)


def _served(model: str) -> str:
    return "tiny" if model.startswith("$") else model.rstrip("/").rpartition("/")[2].lower()


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def render(one: Draft) -> str:
    """The file, commented for who sees one for the first time."""
    parts = [
        "# Written by `pdctl init`. Every key is explained in docs/reference.md.",
        *(f"# {sentence}" for sentence in one.why),
        "",
        "[fleet]",
        f"name = {json.dumps(one.name)}",
        _row("model", one.model, 'a folder, or a hub name such as "org/model"'),
        _row("served_name", one.served_name, 'what clients put into "model"'),
        _row("mode", one.mode, '"pd": prefill hands over to decode; "chunked": each does all'),
        "",
        *_engine_lines(one),
        *(line for pool in one.pools for line in _pool_lines(pool)),
        "[router]",
        _row("host", "127.0.0.1", '"0.0.0.0" lets others in: set keys_file then (pdctl keys)'),
        f"port = {one.port}",
        "",
        "[slo.interactive]                # what counts as good enough",
        'ttft = "500ms"' if one.python and not one.python.startswith("$") else 'ttft = "2s"',
        'tpot = "100ms"',
    ]
    return "\n".join(parts) + "\n"


def _row(key: str, value: object, comment: str) -> str:
    return f"{f'{key} = {json.dumps(value)}'.ljust(32)} # {comment}"


def _engine_lines(one: Draft) -> list[str]:
    if not one.python:
        return ["[engine]", _row("kind", "simulated", "no vLLM: for trying pdctl out"), ""]
    return [
        "[engine]",
        _row("python", one.python, "of vLLM's own environment; it is only executed"),
        _row("start_timeout", "15m", "given up when nothing moves for so long"),
        "",
        "[engine.args]                    # vLLM's arguments, by their long names",
        *(f"{key} = {json.dumps(value)}" for key, value in one.args.items()),
        "",
        "[engine.env]",
        *(f"{key} = {json.dumps(value)}" for key, value in one.env.items()),
        "",
        "[connector]",
        'name = "nixl"',
        _row("lease", one.lease, "how long prefill keeps KV that nobody pulled"),
        f"buffer_device = {json.dumps(one.buffer_device)}",
        "",
    ]


def _pool_lines(pool: _Pool) -> list[str]:
    lines = [f"[pools.{pool.name}]"]
    if pool.name not in ("prefill", "decode"):
        lines.append('role = "both"')
    lines.append(f"size = {pool.size}")
    if pool.slots:
        slots = json.dumps(list(pool.slots))
        lines.append(_row_raw(pool.where, slots, "one for each instance there may ever be"))
    if pool.shutdown:
        lines.append(_row("shutdown_timeout", pool.shutdown, "longer than the lease"))
    if pool.args:
        lines += ["", f"[pools.{pool.name}.args]"]
        lines += [f"{key} = {value}" for key, value in pool.args.items()]
    return [*lines, ""]


def _row_raw(key: str, value: str, comment: str) -> str:
    return f"{f'{key} = {value}'.ljust(32)} # {comment}"

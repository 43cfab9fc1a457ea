"""A request understood: what every endpoint's body comes down to, and the sequences it starts.

Order of refusals as in vLLM: schema, model, prompt length, sampling parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pdctl.simulated.config import SimConfig
from pdctl.simulated.draws import Draws
from pdctl.simulated.generation import Bell, Generation
from pdctl.simulated.problems import Refused, unknown_model
from pdctl.simulated.text import TokenSource, prompt_digest
from pdctl.simulated.vocabulary import VOCAB_SIZE


@dataclass(slots=True)
class Prompt:
    """One prompt, as text where text was given, and as tokens."""

    text: str
    tokens: list[int]


@dataclass(slots=True)
class Call:
    """A request and the sequences that answer it."""

    id: str
    body: dict[str, Any]
    prompts: list[Prompt]
    max_tokens: int | None
    max_tokens_name: str
    created: int
    config: SimConfig
    bell: Bell = field(default_factory=Bell)
    generations: list[Generation] = field(default_factory=list)
    events: int = 0
    """Named events sent after the opening ones, for dialects that number them."""

    @property
    def stream(self) -> bool:
        """Whether the answer is a stream."""
        return bool(self.body.get("stream"))

    @property
    def n(self) -> int:
        """Sequences per prompt."""
        n = self.body.get("n")
        return 1 if n is None else int(n)

    @property
    def kv_params(self) -> dict[str, Any] | None:
        """The params of a handoff, where the body has some."""
        return self.body.get("kv_transfer_params")

    @property
    def is_finished(self) -> bool:
        """Whether every sequence has ended."""
        return all(one.finish_reason is not None for one in self.generations)

    @property
    def has_failed(self) -> bool:
        """Whether a sequence ended in an error."""
        return any(one.finish_reason == "error" for one in self.generations)

    def option(self, name: str) -> bool:
        """A flag of `stream_options`."""
        return bool((self.body.get("stream_options") or {}).get(name))

    def prompt_of(self, generation: Generation) -> Prompt:
        """The prompt that `generation` continues."""
        return self.prompts[generation.index // self.n]


def start(call: Call, draws: Draws) -> None:
    """Check `call` and make its sequences; raises what vLLM would answer."""
    config = call.config
    name = call.body.get("model")
    if name and name != config.model_name:
        raise unknown_model(name, config.model_name)
    for prompt in call.prompts:
        _check_prompt(prompt, config)
    _check_sampling(call)
    for number, prompt in enumerate(call.prompts):
        digest = prompt_digest(config.model_name, prompt.tokens)
        for sample in range(call.n):
            index = number * call.n + sample
            source = TokenSource(digest, sample=sample, mean_tokens=config.mean_output_tokens)
            generation = _generation(call, prompt, index, source, draws.hexadecimal(8))
            generation.digest = digest
            call.generations.append(generation)


def _generation(
    call: Call, prompt: Prompt, index: int, source: TokenSource, suffix: str
) -> Generation:
    body = call.body
    room = call.config.max_model_len - len(prompt.tokens)
    wanted = room if call.max_tokens is None else max(1, call.max_tokens)
    stop = body.get("stop") or ()
    item = f"-{index}" if call.id.startswith("cmpl-") else ""
    return Generation(
        request_id=f"{call.id}{item}-{suffix}",
        prompt=prompt.tokens,
        source=source,
        bell=call.bell,
        max_tokens=min(room, wanted),
        index=index,
        params_n=call.n,
        min_tokens=body.get("min_tokens") or 0,
        ignore_eos=bool(body.get("ignore_eos")),
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        stop_token_ids=frozenset(body.get("stop_token_ids") or ()),
        include_stop=bool(body.get("include_stop_str_in_output")),
        kv_params=call.kv_params,
        use_cache=body.get("prompt_logprobs") is None,
    )


def _check_prompt(prompt: Prompt, config: SimConfig) -> None:
    count = len(prompt.tokens)
    if count == 0:
        raise Refused("The decoder prompt cannot be empty", "prompt")
    if count > config.max_model_len:
        raise Refused(
            f"This model's maximum context length is {config.max_model_len} tokens. However, your "
            f"prompt contains {count} input tokens, which exceeds this limit even without any "
            "output tokens. Please reduce the length of the input prompt.",
            "input_tokens",
        )
    worst = max(prompt.tokens)
    if worst >= VOCAB_SIZE or min(prompt.tokens) < 0:
        raise Refused(f"Token id {worst} is out of vocabulary", "prompt")


def _check_sampling(call: Call) -> None:
    """The bounds that vLLM's SamplingParams check."""
    body, config = call.body, call.config
    wanted = call.max_tokens
    echo_only = wanted == 0 and bool(body.get("echo"))
    if wanted is not None and wanted > config.max_model_len:
        raise Refused(
            f"{call.max_tokens_name}={wanted} cannot be greater than "
            f"max_model_len={config.max_model_len}. Please request fewer output tokens.",
            call.max_tokens_name,
        )
    longest = max(len(prompt.tokens) for prompt in call.prompts)
    room = config.max_model_len - longest
    granted = room if wanted is None else min(room, wanted)
    if granted < 1 and not echo_only:
        raise Refused(f"max_tokens must be at least 1, got {granted}.", "max_tokens")
    min_tokens = body.get("min_tokens") or 0
    if min_tokens < 0:
        raise Refused(f"min_tokens must be greater than or equal to 0, got {min_tokens}.")
    if min_tokens > max(granted, 1):
        raise Refused(
            f"min_tokens must be less than or equal to max_tokens={granted}, got {min_tokens}."
        )
    _check_numbers(call)


def _check_numbers(call: Call) -> None:
    body = call.body
    if call.n < 1:
        raise Refused(f"n must be at least 1, got {call.n}.", "n")
    temperature = body.get("temperature")
    if temperature is not None and temperature < 0:
        raise Refused(f"temperature must be non-negative, got {temperature}.", "temperature")
    top_p = body.get("top_p")
    if top_p is not None and not 0.0 < top_p <= 1.0:
        raise Refused(f"top_p must be in (0, 1], got {top_p}.", "top_p")
    stop = body.get("stop")
    if stop == "" or (isinstance(stop, list) and "" in stop):
        raise Refused("stop cannot contain an empty string.")

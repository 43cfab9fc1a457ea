"""How far a starting vLLM has come, by what its log says.

Pure. Strings are those of vLLM 0.32; a line that is not known changes nothing. (Why a start failed
is judged by `pdctl.domain.verdict`.)
"""

from __future__ import annotations

import re

from pdctl.domain.instance import Progress

SERVING = "serving"
_SHARDS = re.compile(r"Loading \w+ checkpoint shards:\s+(\d+)% Completed")
_CAPTURE = re.compile(r"Capturing CUDA graphs?[^:]*:\s+(\d+)%")
_DOOM = re.compile(r"(?:zmq\.error\.)?ZMQError: Address already in use.*")
_STAGES: tuple[tuple[str, str], ...] = (
    ("Resolved architecture", "reading the model's configuration"),
    ("Initializing a V1 LLM engine", "starting the engine"),
    ("Starting to load model", "loading weights"),
    ("Loading weights took", "weights loaded"),
    ("Model loading took", "weights loaded"),
    ("Dynamo bytecode transform time", "compiling"),
    ("torch.compile takes", "compiling"),
    ("Capturing CUDA graph", "capturing CUDA graphs"),
    ("Graph capturing finished in", "CUDA graphs captured"),
    ("Registering KV_Caches", "registering the KV cache"),
    ("KV cache size:", "KV cache allocated"),
    ("init engine (profile, create kv cache, warmup model) took", "engine ready"),
    ("Starting vLLM server on", "starting the server"),
    ("Starting vLLM API server", "starting the server"),
    ("Application startup complete", SERVING),
)


def parse(line: str, before: Progress | None) -> Progress | None:
    """The progress after `line`; `before` when the line says nothing of it."""
    for pattern, stage in ((_SHARDS, "loading weights"), (_CAPTURE, "capturing CUDA graphs")):
        if match := pattern.search(line):
            return Progress(stage, int(match.group(1)) / 100)
    for words, stage in _STAGES:
        if words in line:
            same = before is not None and before.stage == stage
            return before if same else Progress(stage)
    return before


def doom(line: str) -> str:
    """The error in `line` after which vLLM hangs for ever instead of ending; empty when none.

    The thread that serves NIXL handshakes dies of a taken side-channel port, and nobody notices.
    """
    match = _DOOM.search(line)
    return match.group(0) if match else ""


def finished(progress: Progress | None) -> bool:
    """Whether the server has said that it serves."""
    return progress is not None and progress.stage == SERVING

"""The real environment: it imports, and its model answers the same each time."""

import hashlib
import json
import subprocess
import time
from pathlib import Path

import pytest

from pdctl.engine_env import EngineEnv, StderrProgress, ensure_engine
from pdctl.engine_env.blueprint import ABSENT, RECIPE

pytestmark = pytest.mark.real

GREEDY = """
import json, sys
from importlib import metadata
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

torch.set_num_threads(1)
model = AutoModelForCausalLM.from_pretrained(sys.argv[1])
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
answers = []
for text in ["Tell me a story", "Tell me a story", "0 1 2"]:
    prompt = tokenizer(text, return_tensors="pt").input_ids
    tokens = model.generate(prompt, max_new_tokens=40, do_sample=False)[0][prompt.shape[1]:]
    answers.append(tokenizer.decode(tokens))
chat = tokenizer.apply_chat_template(
    [{"role": "user", "content": "hi"}], tokenize=False, add_generation_prompt=True)
names = sorted(found.name.lower() for found in metadata.distributions())
plugins = [point.name for point in metadata.entry_points(group="vllm.general_plugins")]
print(json.dumps({"answers": answers, "chat": chat, "names": names, "plugins": plugins}))
"""


@pytest.fixture(scope="module")
def engine() -> EngineEnv:
    """The user's engine environment, built if this is the first use."""
    return ensure_engine(StderrProgress())


def test_second_look_takes_no_time(engine: EngineEnv) -> None:
    started = time.monotonic()
    assert ensure_engine() == engine
    assert time.monotonic() - started < 1
    assert engine.version == "0.32.0"
    assert engine.versions["torch"] == "2.13.0+cpu"


def test_model_loads_and_answers_greedily_alike(engine: EngineEnv) -> None:
    done = subprocess.run(
        [engine.python, "-c", GREEDY, engine.model], capture_output=True, text=True, check=True
    )
    said = json.loads(done.stdout.splitlines()[-1])
    first, again, other = said["answers"]
    assert first == again
    assert first != other
    assert all(len(answer) >= 40 and answer.isprintable() for answer in (first, other))
    assert said["chat"] == "<|begin|><|user|>hi<|end|><|assistant|>"
    assert "pdctl_cpu_engine" in said["plugins"]
    assert not set(ABSENT) & set(said["names"])


def test_model_is_made_byte_identical_again(engine: EngineEnv, tmp_path: Path) -> None:
    subprocess.run(
        [engine.python, RECIPE / "make_model.py", tmp_path / "model"],
        capture_output=True,
        check=True,
    )

    def digests(folder: Path) -> dict[str, str]:
        files = (file for file in folder.iterdir() if file.is_file())
        return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}

    assert digests(tmp_path / "model") == digests(engine.model)
    assert "model.safetensors" in digests(engine.model)

# ruff: noqa: INP001 - a script of the engine environment, not a part of this package
"""Makes the tiny model that CPU engines serve: random weights, a byte-level tokenizer, no download.

Runs inside the engine's environment (it needs torch, transformers and tokenizers). The same seed
and the same versions give byte-identical files, so instances that each made their own copy still
agree token by token. The wide initializer range keeps greedy decoding away from ties: with the
usual 0.02 the logits of a random model are so flat that rounding picks the token.
"""

import argparse
import json
import sys
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SEED = 20_260
VOCABULARY = 512
POSITIONS = 8192
SPECIAL = ("<|pad|>", "<|begin|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>")

# The trainer fills the vocabulary above the 256 bytes with merges found here, so that ordinary
# English is shorter in tokens than in bytes, as with a real tokenizer.
SENTENCES = (
    "Prefill reads the whole prompt at once and fills the key value cache.",
    "Decode writes one token at a time and waits for memory more than for compute.",
    "A request is received, queued, prefilled, handed over, decoded and answered.",
    "The router chooses the prefill instance and the decode instance for every request.",
    "The quick brown fox jumps over the lazy dog while seven wizards count to ten.",
    "Operators want to know which instance is slow, which request failed, and why.",
    "Tell me a story about a river, a mountain and the people who live between them.",
    "What is the capital of the country where the longest river of the world ends?",
    "def handle(request): return {'status': 200, 'tokens': [1, 2, 3], 'text': 'hello world'}",
    "0 1 2 3 4 5 6 7 8 9 10 11 12 13 20 30 40 50 100 200 300 500 1000 2000 3000",
)

CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{{ '<|' + (message['role'] if message['role'] in ['system', 'user', 'assistant'] else 'user')"
    " + '|>' }}"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% elif message['content'] %}"
    "{% for part in message['content'] %}{{ part['text'] or '' }}{% endfor %}"
    "{% endif %}"
    "{{ eos_token }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def make_tokenizer(folder: Path) -> list[int]:
    """Trains the byte-level tokenizer, saves it with its template, returns the printable tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        min_frequency=1,
        special_tokens=[AddedToken(token, special=True) for token in SPECIAL],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    if tokenizer.get_vocab_size() != VOCABULARY:
        raise SystemExit(f"the tokenizer has {tokenizer.get_vocab_size()} tokens, not {VOCABULARY}")
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=SPECIAL[1],
        eos_token=SPECIAL[2],
        pad_token=SPECIAL[0],
        model_max_length=POSITIONS,
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)
    texts = ((token, tokenizer.decode([token])) for token in range(len(SPECIAL), VOCABULARY))
    return [
        token for token, text in texts if text.isascii() and (text.isprintable() or text == "\n")
    ]


def make_weights(folder: Path, printable: list[int]) -> None:
    """Draws the weights from the fixed seed and saves them with the model's configuration.

    Output rows of tokens that are no printable text are zero: their logit is 0 and the largest of
    the others is far above it, so answers read as text, every token shows in the stream at once
    (no half character is held back), and a greedy answer runs to its token limit.
    """
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=3,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=POSITIONS,
        initializer_range=0.2,
        pad_token_id=SPECIAL.index("<|pad|>"),
        bos_token_id=SPECIAL.index("<|begin|>"),
        eos_token_id=SPECIAL.index("<|end|>"),
        tie_word_embeddings=False,
        dtype="float32",
    )
    torch.manual_seed(SEED)
    torch.set_num_threads(1)  # one order of summation, one order of draws
    model = LlamaForCausalLM(config).to(torch.float32)
    mask = torch.zeros(VOCABULARY, 1)
    mask[printable] = 1.0
    with torch.no_grad():
        model.lm_head.weight.mul_(mask)
    model.save_pretrained(folder)


def main() -> None:
    """Makes the model in the folder named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    make_weights(folder, make_tokenizer(folder))
    parameters = sum(file.stat().st_size for file in folder.glob("*.safetensors")) // 4
    sys.stdout.write(json.dumps({"folder": str(folder), "parameters": parameters}) + "\n")


if __name__ == "__main__":
    main()

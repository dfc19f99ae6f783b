"""Make the directory of a tiny model for tests against a real vLLM: random weights, two layers.

    python tests/live/tiny_model.py DIRECTORY [--template hybrid | plain]

Runs where vLLM is installed, see docs/testing.md. Its words are noise; tests force the shape of its
answers. The tokenizer is a byte-level BPE over a few sentences, so that tags, and characters of several
bytes, come in pieces. `[THINK]` and `[/THINK]` are special tokens of it, as Mistral's are.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

END = "<|end_of_turn|>"
"""Longer than a tag: where its logprobs are counted in bytes, it must not push those of the text around."""
SPECIAL = ["<|user|>", "<|assistant|>", "<|system|>", END, "[THINK]", "[/THINK]"]

VOCABULARY = 512
"""Entries of the tokenizer: 256 bytes, the special tokens, and merges up to here."""

TOKENS = 1024
"""The longest prompt and answer together."""

SENTENCES = (
    "the sky is blue because short waves scatter more than long ones",
    "why does a quick brown fox jump over the lazy dog",
    "first add the numbers and then say what the answer is about",
    "thinking takes many words, an answer takes few",
)

HYBRID = """\
{%- for message in messages -%}
<|{{ message.role }}|>
{%- if message.role == "assistant" and message.reasoning_content -%}
<think>
{{ message.reasoning_content }}
</think>

{% endif -%}
{{ message.content }}<|end_of_turn|>
{%- endfor -%}
{%- if add_generation_prompt -%}
<|assistant|>
{%- if enable_thinking is defined and not enable_thinking or "/no_think" in messages[-1].content -%}
<think>

</think>

{% else -%}
<think>
{% endif -%}
{%- endif -%}
"""
"""Opens the thinking in the prompt, as Qwen3.5's does. With the switch off, or `/no_think` in the last
message, the prompt holds an empty block instead. Earlier thinking is read from its own field."""

PLAIN = """\
{%- for message in messages -%}
<|{{ message.role }}|>{{ message.content }}<|end_of_turn|>
{%- endfor -%}
{%- if add_generation_prompt -%}
<|assistant|>
{%- if enable_thinking is defined and not enable_thinking -%}
<think>

</think>

{% endif -%}
{%- endif -%}
"""
"""Leaves the opener to the model, as Qwen3's does. Contents are repeated as they are, and no field with
earlier thinking is read."""

TEMPLATES = {"hybrid": HYBRID, "plain": PLAIN}


def make_tokenizer(template: str) -> PreTrainedTokenizerFast:
    """Return the tokenizer, with the chat template of this name."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=END,
        additional_special_tokens=SPECIAL,
        chat_template=TEMPLATES[template],
        model_max_length=TOKENS,
        clean_up_tokenization_spaces=False,
    )


def make_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Return a model for the tokenizer; its weights are the same every time."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=TOKENS,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        pad_token_id=tokenizer.pad_token_id,
    )
    return LlamaForCausalLM(config)


def main() -> None:
    """Write the directory that the command line names."""
    parser = argparse.ArgumentParser(description="Make the directory of a tiny model.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--template", choices=TEMPLATES, default="hybrid", help="its chat template")
    options = parser.parse_args()
    tokenizer = make_tokenizer(options.template)
    tokenizer.save_pretrained(options.directory)
    make_model(tokenizer).save_pretrained(options.directory)


if __name__ == "__main__":
    main()

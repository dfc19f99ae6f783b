"""Which families are recognised by name, what they get, and what the documentation says of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from proxy.config import describe, load, render
from proxy.presets import PRESETS, find_preset
from proxy.rules import TAG_SETS, Rule, Start, Whitespace
from proxy.settings import Entry, Settings

FAMILIES = Path(__file__).parents[1] / "docs" / "families.md"

# Of each glob, in the order of the table: a model it is for, a name that it must leave alone, and the
# glob that gets that one instead.
NAMES = [
    ("Qwen/QwQ-32B-Preview*", "Qwen/QwQ-32B-Preview", "Qwen/QwQ-32B", "Qwen/QwQ-*"),
    ("Qwen/Qwen3-Omni-*", "Qwen/Qwen3-Omni-30B-A3B-Thinking", "Qwen/Qwen3-Omni", "Qwen/Qwen3-*"),
    ("Qwen/QwQ-*", "Qwen/QwQ-32B-AWQ", "Qwen/QwQ", None),
    ("Qwen/Qwen3-*-Thinking*", "Qwen/Qwen3-4B-Thinking-2507-FP8", "Qwen/Qwen3-4B", "Qwen/Qwen3-*"),
    ("Qwen/Qwen3.5-*", "Qwen/Qwen3.5-4B", "Qwen/Qwen3x5-4B", None),
    ("Qwen/Qwen3.6-*", "Qwen/Qwen3.6-35B-A3B", "Qwen/Qwen3.8-35B-A3B", None),
    ("Qwen/Qwen3-*", "Qwen/Qwen3-8B", "Qwen/Qwen2.5-7B-Instruct", None),
    ("deepseek-ai/DeepSeek-R1*", "deepseek-ai/DeepSeek-R1-0528", "deepseek-ai/DeepSeek-V3-0324", None),
    ("deepseek-ai/DeepSeek-V3.1*", "deepseek-ai/DeepSeek-V3.1-Terminus", "deepseek-ai/DeepSeek-V3", None),
    ("deepseek-ai/DeepSeek-V3.2*", "deepseek-ai/DeepSeek-V3.2-Exp", "deepseek-ai/DeepSeek-V3.3", None),
    ("deepseek-ai/DeepSeek-V4*", "deepseek-ai/DeepSeek-V4-Flash", "deepseek-ai/DeepSeek-V2", None),
    ("zai-org/GLM-4.5*", "zai-org/GLM-4.5-Air", "zai-org/GLM-4-9B-0414", None),
    ("zai-org/GLM-4.6*", "zai-org/GLM-4.6-FP8", "zai-org/GLM-Z1-9B-0414", None),
    ("zai-org/GLM-4.7*", "zai-org/GLM-4.7-Flash", "zai-org/GLM-4.8", None),
    ("zai-org/GLM-5*", "zai-org/GLM-5.2", "zai-org/GLM5", None),
    (
        "moonshotai/Kimi-VL-*-Thinking*",
        "moonshotai/Kimi-VL-A3B-Thinking-2506",
        "moonshotai/Kimi-VL-A3B-Instruct",
        None,
    ),
    ("moonshotai/Kimi-Dev-*", "moonshotai/Kimi-Dev-72B", "moonshotai/Kimi-Audio-7B", None),
    ("moonshotai/Kimi-K2-Thinking*", "moonshotai/Kimi-K2-Thinking", "moonshotai/Kimi-K2-Instruct", None),
    ("moonshotai/Kimi-K2.5*", "moonshotai/Kimi-K2.5", "moonshotai/Kimi-K2.7-Code", None),
    ("moonshotai/Kimi-K2.6*", "moonshotai/Kimi-K2.6", "moonshotai/Kimi-K26", None),
    ("moonshotai/Kimi-K3*", "moonshotai/Kimi-K3", "moonshotai/Kimi-3", None),
    ("MiniMaxAI/MiniMax-M2*", "MiniMaxAI/MiniMax-M2.7", "MiniMaxAI/MiniMax-M1-80k", None),
    ("MiniMaxAI/MiniMax-M3*", "MiniMaxAI/MiniMax-M3", "MiniMaxAI/MiniMax-Text-01", None),
    (
        "ByteDance-Seed/Seed-OSS*",
        "ByteDance-Seed/Seed-OSS-36B-Instruct",
        "ByteDance-Seed/Seed-Coder-8B-Instruct",
        None,
    ),
    (
        "mistralai/Magistral-*-2507*",
        "mistralai/Magistral-Small-2507",
        "mistralai/Magistral-Small-2506",
        None,
    ),
    (
        "mistralai/Magistral-*-2509*",
        "mistralai/Magistral-Small-2509-GGUF",
        "mistralai/Mistral-Small-3.2-24B-Instruct-2506",
        None,
    ),
    (
        "mistralai/Ministral-3-*-Reasoning-*",
        "mistralai/Ministral-3-8B-Reasoning-2512",
        "mistralai/Ministral-3-8B-Instruct-2512",
        None,
    ),
    (
        "mistralai/Mistral-Small-4-*",
        "mistralai/Mistral-Small-4-119B-2603",
        "mistralai/Mistral-Small-3-24B",
        None,
    ),
    ("google/gemma-4-*", "google/gemma-4-31B-it", "google/gemma-3-27b-it", None),
    (
        "CohereLabs/command-a-reasoning-*",
        "CohereLabs/command-a-reasoning-08-2025",
        "CohereLabs/c4ai-command-a-03-2025",
        None,
    ),
    (
        "CohereLabs/command-a-plus-*",
        "CohereLabs/command-a-plus-05-2026",
        "CohereLabs/command-a-vision-07-2025",
        None,
    ),
    (
        "CohereLabs/c4ai-command-r7b-12-2024*",
        "CohereLabs/c4ai-command-r7b-12-2024",
        "CohereLabs/c4ai-command-r7b-arabic-02-2025",
        None,
    ),
    ("IFM/K2-Horizon-*", "IFM/K2-Horizon-70B", "IFM/K2-Think", None),
    ("swiss-ai/Apertus-*-2509*", "swiss-ai/Apertus-8B-Instruct-2509", "swiss-ai/Apertus-8B", None),
    (
        "ibm-granite/granite-3.2-*",
        "ibm-granite/granite-3.2-8b-instruct",
        "ibm-granite/granite-3.1-8b-instruct",
        None,
    ),
    (
        "ibm-granite/granite-3.3-*",
        "ibm-granite/granite-3.3-8b-instruct",
        "ibm-granite/granite-4.0-h-small",
        None,
    ),
    (
        "tencent/Hunyuan-A13B-Instruct*",
        "tencent/Hunyuan-A13B-Instruct-FP8",
        "tencent/Hunyuan-A13B-Pretrain",
        None,
    ),
    ("tencent/Hy3*", "tencent/Hy3-preview", "tencent/Hunyuan-7B-Instruct", None),
    (
        "baidu/ERNIE-4.5-21B-A3B-Thinking*",
        "baidu/ERNIE-4.5-21B-A3B-Thinking",
        "baidu/ERNIE-4.5-21B-A3B-PT",
        None,
    ),
    ("stepfun-ai/step3", "stepfun-ai/step3", "stepfun-ai/step3-fp8", None),
    ("stepfun-ai/Step-3.5*", "stepfun-ai/Step-3.5-Flash", "stepfun-ai/Step-Audio-2-mini", None),
    ("stepfun-ai/Step-3.7*", "stepfun-ai/Step-3.7-Flash", "stepfun-ai/Step3-VL-10B", None),
    ("allenai/Olmo-3-*-Think*", "allenai/Olmo-3-32B-Think", "allenai/Olmo-3-7B-Instruct", None),
    (
        "nvidia/NVIDIA-Nemotron-3-*",
        "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
        "nvidia/Llama-3_3-Nemotron-Super-49B-v1_5",
        None,
    ),
    (
        "nvidia/NVIDIA-Nemotron-Nano-*-v2*",
        "nvidia/NVIDIA-Nemotron-Nano-9B-v2",
        "nvidia/Llama-3.1-Nemotron-Nano-8B-v1",
        None,
    ),
    ("poolside/Laguna-*", "poolside/Laguna-XS.2", "poolside/Point", None),
    ("openbmb/MiniCPM-V-4_5*", "openbmb/MiniCPM-V-4_5-int4", "openbmb/MiniCPM-V-4", None),
]


def test_every_row_has_its_names() -> None:
    assert [row[0] for row in NAMES] == [glob for preset in PRESETS for glob in preset.globs]


@pytest.mark.parametrize(("glob", "name", "near_miss", "instead"), NAMES, ids=[row[0] for row in NAMES])
def test_a_row_takes_its_own_and_leaves_its_neighbours(
    glob: str, name: str, near_miss: str, instead: str | None
) -> None:
    found = find_preset(name)
    assert found is not None
    assert found[0] == glob
    assert glob in found[1].globs
    other = find_preset(near_miss)
    assert (other and other[0]) == instead


@pytest.mark.parametrize("glob", [row[0] for row in NAMES])
def test_an_entry_that_is_spelled_like_a_row_gets_it(glob: str) -> None:
    found = find_preset(glob)
    assert found is not None
    assert found[0] == glob


@pytest.mark.parametrize(
    ("name", "glob"),
    [
        ("Qwen/Qwen3-8B*", "Qwen/Qwen3-*"),
        ("Qwen/Qwen3-*-Thinking-2507", "Qwen/Qwen3-*-Thinking*"),
        ("Qwen/Qwen3-?B", "Qwen/Qwen3-*"),
        ("Qwen/Qwen3-[48]B", "Qwen/Qwen3-*"),
        ("deepseek-ai/DeepSeek-R1-Distill-*", "deepseek-ai/DeepSeek-R1*"),
        # More than one family.
        ("*", None),
        ("Qwen/*", None),
        ("Qwen/Qwen3*", None),
        ("moonshotai/Kimi-*", None),
        ("*/Qwen3-8B", None),
        # Another's name, another's spelling.
        ("unsloth/Qwen3-8B", None),
        ("Qwen3-8B", None),
        ("qwen/qwen3-8b", None),
        ("/models/Qwen/Qwen3-8B", None),
        ("", None),
    ],
)
def test_entries_of_other_shapes(name: str, glob: str | None) -> None:
    found = find_preset(name)
    assert (found and found[0]) == glob


def test_every_tag_set_of_a_row_exists() -> None:
    assert {preset.tags for preset in PRESETS} <= TAG_SETS.keys()


def test_no_row_starts_anywhere() -> None:
    # It would split prose that mentions a tag.
    assert {preset.start for preset in PRESETS} == {Start.LEADING, Start.IMPLICIT, Start.AUTO}


def test_the_documentation_has_the_same_rows_in_the_same_order() -> None:
    section = FAMILIES.read_text(encoding="utf-8").split("\n## Presets\n")[1].split("\n## ")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| `")]
    assert rows
    told = [
        (glob, *re.findall(r"`([^`]+)`", tags), *re.findall(r"`([^`]+)`", start), bool(why.strip(" |")))
        for globs, tags, start, why in rows
        for glob in re.findall(r"`([^`]+)`", globs)
    ]
    assert told == [
        (glob, preset.tags, str(preset.start), True) for preset in PRESETS for glob in preset.globs
    ]


# --- in a configuration ---


def read(tmp_path: Path, entries: str, environ: dict[str, str] | None = None) -> Settings:
    file = tmp_path / "p.yaml"
    file.write_text(f"inlineThinkTagModels:\n{entries}", encoding="utf-8")
    return load(file, environ=environ or {})


@pytest.mark.parametrize("name", [row[1] for row in NAMES])
def test_an_entry_takes_what_it_does_not_say(tmp_path: Path, name: str) -> None:
    found = find_preset(name)
    assert found is not None
    glob, preset = found
    source = f"preset for {glob}"
    assert read(tmp_path, f"- {name}\n").entries == (
        Entry(
            name,
            Rule(start=preset.start, tags=TAG_SETS[preset.tags]),
            f"{tmp_path}/p.yaml:2",
            {"start": source, "tags": source},
        ),
    )


@pytest.mark.parametrize(
    ("keys", "rule", "sources"),
    [
        ("", Rule(Start.AUTO, TAG_SETS["gemma4"]), {"start": "preset", "tags": "preset"}),
        ("start: leading", Rule(Start.LEADING, TAG_SETS["gemma4"]), {"start": "set", "tags": "preset"}),
        ("tags: think", Rule(Start.AUTO, TAG_SETS["think"]), {"start": "preset", "tags": "set"}),
        (
            "tags: gemma4, start: auto",
            Rule(Start.AUTO, TAG_SETS["gemma4"]),
            {"start": "set", "tags": "set"},
        ),
        (
            "start: anywhere, tags: mistral, whitespace: exact",
            Rule(Start.ANYWHERE, TAG_SETS["mistral"], whitespace=Whitespace.EXACT),
            {"start": "set", "tags": "set", "whitespace": "set"},
        ),
        # A key without a value says nothing.
        ("start: , tags: ", Rule(Start.AUTO, TAG_SETS["gemma4"]), {"start": "preset", "tags": "preset"}),
        ("start: '${START}'", Rule(Start.IMPLICIT, TAG_SETS["gemma4"]), {"start": "set", "tags": "preset"}),
    ],
)
def test_what_an_entry_says_wins(tmp_path: Path, keys: str, rule: Rule, sources: dict[str, str]) -> None:
    settings = read(tmp_path, f"- {{model: google/gemma-4-31B-it, {keys}}}\n", {"START": "implicit"})
    (entry,) = settings.entries
    words = {"set": "set here", "preset": "preset for google/gemma-4-*"}
    assert entry.rule == rule
    assert entry.sources == {name: words[source] for name, source in sources.items()}


def test_a_variant_is_of_its_models_family(tmp_path: Path) -> None:
    settings = read(tmp_path, "- stepfun-ai/step3:free\n- stepfun-ai/step3-fp8:free\n")
    assert [entry.rule.start for entry in settings.entries] == [Start.IMPLICIT, Start.LEADING]


def test_tags_of_ones_own_win(tmp_path: Path) -> None:
    text = "- {model: google/gemma-4-31B-it, tags: {open: [<a>], close: [</a>]}}\n"
    (entry,) = read(tmp_path, text).entries
    assert (entry.rule.start, entry.rule.tags.openers) == (Start.AUTO, ("<a>",))


def test_check_shows_where_values_came_from_and_loads_back(tmp_path: Path) -> None:
    text = """\
- Qwen/Qwen3-*-Thinking*
- {model: MiniMaxAI/MiniMax-M3, start: leading, history: drop}
- {model: my/model, tags: {open: [<a>], close: [</a>, b]}}
- Qwen/*
"""
    settings = read(tmp_path, text)
    printed = "\n".join(render(settings))
    shown = [line.strip() for line in printed.splitlines() if " # " in line or "- model" in line]
    assert shown == [
        f"# {tmp_path}/p.yaml:2",
        '- model: "Qwen/Qwen3-*-Thinking*"',
        'start: "implicit"  # preset for Qwen/Qwen3-*-Thinking*',
        'tags: "think"  # preset for Qwen/Qwen3-*-Thinking*',
        f"# {tmp_path}/p.yaml:3",
        '- model: "MiniMaxAI/MiniMax-M3"',
        'start: "leading"  # set here',
        'tags: "minimax-m3"  # preset for MiniMaxAI/MiniMax-M3*',
        'history: "drop"  # set here',
        f"# {tmp_path}/p.yaml:4",
        '- model: "my/model"',
        "tags:  # set here",
        f"# {tmp_path}/p.yaml:5",
        '- model: "Qwen/*"',
    ]
    assert yaml.safe_load(printed) == describe(settings)
    file = tmp_path / "printed.yaml"
    file.write_text(printed, encoding="utf-8")
    again = load(file, environ={})
    assert [entry.rule for entry in again.entries] == [entry.rule for entry in settings.entries]
    assert describe(again) == describe(settings)

"""Tags and start mode of known model families, by name. Evidence for each row: `docs/families.md`.

An entry of the configuration whose own name matches a row takes from it what it does not say itself.
The first match counts. A family without good evidence has no row: the defaults are the careful choice.

`auto` where thinking is off unless asked for, or its switch is none of the exceptions of `implicit`.
Where it is on, and the exceptions are its switches, `implicit` is right on any server, those that can't
be asked for the prompt included.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

from proxy.rules import Start


class Preset(NamedTuple):
    """What is known of one family."""

    globs: tuple[str, ...]
    tags: str
    start: Start


PRESETS = (
    # The defaults, to keep the rows below off two families that they would match.
    Preset(("Qwen/QwQ-32B-Preview*", "Qwen/Qwen3-Omni-*"), "think", Start.LEADING),
    Preset(("Qwen/QwQ-*",), "think", Start.IMPLICIT),
    Preset(("Qwen/Qwen3-*-Thinking*",), "think", Start.IMPLICIT),
    Preset(("Qwen/Qwen3.5-*", "Qwen/Qwen3.6-*"), "think", Start.IMPLICIT),
    Preset(("Qwen/Qwen3-*",), "think", Start.LEADING),
    Preset(("deepseek-ai/DeepSeek-R1*",), "think", Start.IMPLICIT),
    Preset(
        ("deepseek-ai/DeepSeek-V3.1*", "deepseek-ai/DeepSeek-V3.2*", "deepseek-ai/DeepSeek-V4*"),
        "think",
        Start.AUTO,
    ),
    Preset(("zai-org/GLM-4.5*", "zai-org/GLM-4.6*"), "think", Start.LEADING),
    Preset(("zai-org/GLM-4.7*", "zai-org/GLM-5*"), "think", Start.IMPLICIT),
    Preset(("moonshotai/Kimi-VL-*-Thinking*", "moonshotai/Kimi-Dev-*"), "kimi", Start.LEADING),
    Preset(("moonshotai/Kimi-K2-Thinking*",), "think", Start.LEADING),
    Preset(("moonshotai/Kimi-K2.5*", "moonshotai/Kimi-K2.6*"), "think", Start.IMPLICIT),
    Preset(("moonshotai/Kimi-K3*",), "kimi-k3", Start.IMPLICIT),
    Preset(("MiniMaxAI/MiniMax-M2*",), "think", Start.IMPLICIT),
    Preset(("MiniMaxAI/MiniMax-M3*",), "minimax-m3", Start.AUTO),
    Preset(("ByteDance-Seed/Seed-OSS*",), "seed-oss", Start.LEADING),
    Preset(
        (
            "mistralai/Magistral-*-2507*",
            "mistralai/Magistral-*-2509*",
            "mistralai/Ministral-3-*-Reasoning-*",
            "mistralai/Mistral-Small-4-*",
        ),
        "mistral",
        Start.LEADING,
    ),
    Preset(("google/gemma-4-*",), "gemma4", Start.AUTO),
    Preset(("CohereLabs/command-a-reasoning-*", "CohereLabs/command-a-plus-*"), "cohere", Start.AUTO),
    Preset(("CohereLabs/c4ai-command-r7b-12-2024*",), "cohere", Start.LEADING),
    Preset(("IFM/K2-Horizon-*",), "k2-horizon", Start.IMPLICIT),
    Preset(("swiss-ai/Apertus-*-2509*",), "apertus", Start.LEADING),
    Preset(("ibm-granite/granite-3.2-*",), "granite-3.2", Start.LEADING),
    Preset(("ibm-granite/granite-3.3-*",), "ernie", Start.LEADING),
    Preset(("tencent/Hunyuan-A13B-Instruct*",), "hunyuan", Start.LEADING),
    Preset(("tencent/Hy3*",), "hy3", Start.AUTO),
    Preset(("baidu/ERNIE-4.5-21B-A3B-Thinking*",), "ernie", Start.IMPLICIT),
    Preset(
        ("stepfun-ai/step3", "stepfun-ai/Step-3.5*", "stepfun-ai/Step-3.7*", "allenai/Olmo-3-*-Think*"),
        "think",
        Start.IMPLICIT,
    ),
    Preset(("nvidia/NVIDIA-Nemotron-3-*",), "think", Start.IMPLICIT),
    Preset(
        ("nvidia/NVIDIA-Nemotron-Nano-*-v2*", "poolside/Laguna-*", "openbmb/MiniCPM-V-4_5*"),
        "think",
        Start.AUTO,
    ),
)


def find_preset(name: str) -> tuple[str, Preset] | None:
    """Return the glob that a name matches and its preset.

    The name is that of an entry, which may be a glob itself: it is compared as it is written, so an
    entry that names more than one family gets what its own text matches.
    """
    for preset in PRESETS:
        for glob in preset.globs:
            if fnmatchcase(name, glob):
                return glob, preset
    return None

"""The packaging files as data, for the tests beside it."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from typing import Any

import yaml

from tests.commands import ROOT


@dataclass(frozen=True)
class Instruction:
    """One instruction of the Dockerfile, its lines joined: `COPY`, `config/proxy.yaml /etc/…`."""

    word: str
    rest: str


def read_dockerfile() -> list[Instruction]:
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = (line for line in text.replace("\\\n", " ").splitlines() if line.strip())
    return [Instruction(*line.split(maxsplit=1)) for line in lines]


def read_final_stage() -> list[Instruction]:
    instructions = read_dockerfile()
    last = max(i for i, instruction in enumerate(instructions) if instruction.word == "FROM")
    return instructions[last:]


def image_environ() -> dict[str, str]:
    """The variables that a process in the image starts with, as far as the Dockerfile sets them."""
    words = [word for i in read_final_stage() if i.word == "ENV" for word in shlex.split(i.rest)]
    return dict(word.split("=", 1) for word in words)


def health_command() -> list[str]:
    (health,) = [i.rest for i in read_final_stage() if i.word == "HEALTHCHECK"]
    command: list[str] = json.loads(health.partition("CMD")[2])
    return command


def read_compose(**variables: str) -> Any:
    """The compose file, `${NAME:-default}` filled in from `variables`, else from the defaults."""

    def fill(value: Any) -> Any:
        if isinstance(value, str):
            return re.sub(r"\$\{(\w+):-([^}]*)\}", lambda match: variables.get(match[1], match[2]), value)
        if isinstance(value, list):
            return [fill(item) for item in value]
        if isinstance(value, dict):
            return {key: fill(item) for key, item in value.items()}
        return value

    # After parsing, as compose does it: a value cannot change the structure.
    return fill(yaml.safe_load((ROOT / "docker-compose.yml").read_text()))

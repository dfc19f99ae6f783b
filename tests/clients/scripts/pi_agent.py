"""The conversation by the pi coding agent, run without its terminal; its tool is its own `read`.

NODE and PI say what to run. The agent knows streams only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

NODE, PI = os.environ["NODE"], os.environ["PI"]


def text(message: dict[str, Any], kind: str) -> str:
    return "".join(part[kind] for part in message["content"] if part["type"] == kind)


def converse(folder: Path, model: str) -> list[dict[str, str]]:
    command = (NODE, PI, "--mode", "json", "--print", "--no-session", "--offline", "--tools", "read")
    done = subprocess.run(
        (*command, "--provider", "think-proxy", "--model", model, "How warm is it in Oslo?"),
        cwd=folder,
        env=os.environ | {"PI_CODING_AGENT_DIR": str(folder), "PI_OFFLINE": "1", "PI_TELEMETRY": "0"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    events = [json.loads(line) for line in done.stdout.split(b"\n") if line]
    answers = [event["message"] for event in events if event["type"] == "turn_end"]
    return [{"reasoning": text(answer, "thinking"), "content": text(answer, "text")} for answer in answers]


def main() -> None:
    base_url, *models = sys.argv[1:]
    provider = {
        "baseUrl": base_url,
        "api": "openai-completions",
        "apiKey": "none",
        "models": [{"id": model, "reasoning": True} for model in models],
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "models.json").write_text(json.dumps({"providers": {"think-proxy": provider}}))
        (folder / "weather.txt").write_text("12 degrees\n")
        conversations = {"": {model: {"stream": converse(folder, model)} for model in models}}
    manifest = json.loads(Path(PI).parents[2].joinpath("package.json").read_text())
    json.dump({"version": manifest["version"], "conversations": conversations}, sys.stdout)


main()

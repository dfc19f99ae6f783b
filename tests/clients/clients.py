"""The clients that are driven, what was seen of each, and how one is run.

`CLIENTS` is what the tests hold each client to and what the table in docs/clients.md says.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MODULES = HERE / "node_modules"
PI = MODULES / "@earendil-works" / "pi-coding-agent" / "dist" / "bundle" / "cli.js"

TIMEOUT_S = 300
"""For one script. LangChain and LiteLLM take ten seconds on a busy machine only to be imported."""

CONTENT, REASONING, BOTH = "reasoning_content", "reasoning", "both"

NOTHING: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Client:
    """One way to use one client, and what was seen of it."""

    title: str
    """What the table calls it."""
    package: str
    """Whose version the table shows."""
    script: str
    sends: dict[str, tuple[str, ...]]
    """The fields with reasoning in its second request, by the `reasoningField` of the answer before."""
    use: str = ""
    """The way to use it, as its script calls it."""
    ways: tuple[str, ...] = ("stream", "whole")
    shows_all: bool = True
    """Whether it shows the reasoning of a stream, and not only the last piece of it."""
    exact: tuple[str, ...] = ("stream", "whole")
    """The ways in which the model gets its own bytes back: `history: inline` with `whitespace: exact`."""


_AS_RECEIVED = {CONTENT: (CONTENT,), REASONING: (REASONING,), BOTH: (CONTENT, REASONING)}

CLIENTS = (
    Client("`openai` for Python", "openai", "openai_sdk.py", _AS_RECEIVED),
    Client("`openai` for Node, `create()`", "openai", "openai_sdk.mjs", _AS_RECEIVED, use="create"),
    Client(
        "`openai` for Node, `stream()`",
        "openai",
        "openai_sdk.mjs",
        _AS_RECEIVED,
        use="helper",
        ways=("stream",),
        shows_all=False,
        exact=(),
    ),
    Client(
        "AI SDK, `@ai-sdk/openai-compatible`",
        "@ai-sdk/openai-compatible",
        "ai_sdk.mjs",
        dict.fromkeys((CONTENT, REASONING, BOTH), (CONTENT,)),
    ),
    Client(
        "LangChain, `ChatDeepSeek`",
        "langchain-deepseek",
        "langchain_chat.py",
        dict.fromkeys((CONTENT, REASONING, BOTH), NOTHING),
        exact=(),
    ),
    Client(
        "LangChain, `ThinkingChat` (below)",
        "langchain-deepseek",
        "langchain_chat.py",
        dict.fromkeys((CONTENT, REASONING, BOTH), (CONTENT,)),
        use="class",
    ),
    Client(
        "Pydantic AI, `OpenAIChatModel`",
        "pydantic-ai-slim",
        "pydantic_agent.py",
        _AS_RECEIVED | {BOTH: (REASONING,)},
        exact=("whole",),
    ),
    Client(
        "LiteLLM's SDK, `openai/…`",
        "litellm",
        "litellm_sdk.py",
        dict.fromkeys((CONTENT, REASONING, BOTH), (CONTENT,)),
    ),
    Client(
        "pi coding agent",
        "@earendil-works/pi-coding-agent",
        "pi_agent.py",
        _AS_RECEIVED | {BOTH: (CONTENT,)},
        ways=("stream",),
        exact=(),
    ),
)

_QUIET = {
    "AI_SDK_LOG_WARNINGS": "false",
    "DO_NOT_TRACK": "1",
    "LANGSMITH_TRACING": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_TELEMETRY": "False",
    "PI_OFFLINE": "1",
    "PI_TELEMETRY": "0",
}
"""What keeps the clients from asking anything of anyone but the proxy."""


def locked_version(client: Client) -> str:
    """The version of a client that the lock of its language names."""
    if client.script.endswith(".mjs") or client.package.startswith("@"):
        lock = json.loads((HERE / "package-lock.json").read_text())
        version: str = lock["packages"][f"node_modules/{client.package}"]["version"]
        return version
    lock_text = (ROOT / "requirements" / "clients.txt").read_text()
    (found,) = re.findall(rf"^{re.escape(client.package)}==(\S+)", lock_text, re.MULTILINE)
    return str(found)


def find_python() -> str:
    """The Python that has the clients; CLIENTS_VENV names its environment."""
    folder = ROOT / os.environ.get("CLIENTS_VENV", ".venv-clients")
    return _existing(folder / "bin" / "python")


def find_node() -> str:
    """The Node that came with the Node clients; where there is none for this machine, the machine's own."""
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(os.uname().machine, "")
    locked = MODULES / f"node-{sys.platform}-{machine}" / "bin" / "node"
    return str(locked) if locked.exists() else "node"


def _existing(path: Path) -> str:
    assert path.exists(), f"{path} is missing: `make test-clients` installs it"
    return str(path)


def run_client(command: list[str], stdin: str = "", home: Path | None = None) -> str:
    """Run a client with nothing of this machine's settings in its environment; return what it printed.

    `home` takes the place of the home folder, a new one for this run unless given. Raises
    `subprocess.TimeoutExpired` after `TIMEOUT_S`.
    """
    with tempfile.TemporaryDirectory() as empty:
        done = subprocess.run(
            command,
            cwd=HERE,
            env=_QUIET
            | {"PATH": os.environ["PATH"], "HOME": str(home or empty), "NODE": find_node(), "PI": str(PI)},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_script(name: str, *arguments: str) -> str:
    """Run one of the scripts; return what it printed."""
    runtime = find_python() if name.endswith(".py") else find_node()
    return run_client([runtime, str(HERE / "scripts" / name), *arguments])

"""The Dockerfile: lint, what it copies, who it runs as, and that its health check tells well from ill."""

from __future__ import annotations

import re
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from proxy.config import load
from tests.packaging.commands import run
from tests.packaging.files import ROOT, health_command, image_environ, read_dockerfile, read_final_stage
from tests.servers import serving


def test_hadolint_has_no_complaint() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = run(hadolint, "--no-color", "Dockerfile")
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_every_base_is_the_same_slim_python_that_the_project_supports() -> None:
    bases = {i.rest.split()[0] for i in read_dockerfile() if i.word == "FROM"}
    assert len(bases) == 1
    match = re.fullmatch(r"python:(3\.\d+)-slim", bases.pop())
    assert match
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    assert f"Programming Language :: Python :: {match[1]}" in classifiers


def test_what_is_copied_exists_and_reaches_the_builder() -> None:
    """`.dockerignore` refuses everything and lets single paths back in."""
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    allowed = {line[1:] for line in ignored if line.startswith("!")}
    copies = [i.rest.split() for i in read_dockerfile() if i.word == "COPY" and "--from=" not in i.rest]
    sources = {word for words in copies for word in words[:-1] if not word.startswith("--")}
    assert "*" in ignored
    assert sources == allowed
    assert all((ROOT / source).exists() for source in sources)
    assert not any(fnmatch("proxy/cli.py", pattern) for pattern in ignored if pattern != "*")


def test_every_download_is_checked_against_a_hash() -> None:
    runs = " && ".join(i.rest for i in read_dockerfile() if i.word == "RUN")
    installs = [step for step in runs.split("&&") if "pip install" in step]
    assert installs
    assert all("--require-hashes" in step or "--no-index" in step for step in installs)


def test_runs_as_a_number_that_is_not_root() -> None:
    (user,) = [i.rest for i in read_final_stage() if i.word == "USER"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)


def test_the_shipped_configuration_listens_where_the_image_says() -> None:
    environ = image_environ()
    (config,) = [i.rest.split() for i in read_final_stage() if i.word == "COPY" and "--from=" not in i.rest]
    (exposed,) = [i.rest for i in read_final_stage() if i.word == "EXPOSE"]
    assert config[-1] == environ["THINK_PROXY_CONFIG"]
    settings = load(ROOT / config[-2], environ=environ)
    assert (settings.listen.host, settings.listen.port) == ("0.0.0.0", int(exposed))


def app(status: int) -> Any:
    """An application that answers `status` to /healthz and 404 to everything else."""

    async def answer(scope: Any, _: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        code = status if (scope["method"], scope["path"]) == ("GET", "/healthz") else 404
        await send({"type": "http.response.start", "status": code, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    return answer


def ask_health(port: int) -> int:
    python, *arguments = health_command()
    assert python == "python"
    # A proxy in the environment, which must not be asked: nothing listens there.
    proxy = "http://127.0.0.1:1"
    return run(sys.executable, *arguments, THINK_PROXY_LISTEN__PORT=str(port), http_proxy=proxy).returncode


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False), (404, False)])
def test_health_check_passes_on_200_only(status: int, healthy: bool) -> None:
    with serving(app(status), lifespan="off") as url:
        assert (ask_health(urlsplit(url).port or 0) == 0) is healthy


def test_health_check_fails_where_nothing_listens() -> None:
    with serving(app(200), lifespan="off") as url:
        port = urlsplit(url).port or 0
    assert ask_health(port) == 1

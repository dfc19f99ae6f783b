"""The compose file: valid, and its parts fit each other, the image and the configuration."""

from __future__ import annotations

import json
import shutil
import sys
from typing import Any
from urllib.parse import urlsplit

import jsonschema
import pytest

from proxy.config import load
from proxy.demo_answers import MODELS
from proxy.settings import RuleTable, Settings
from tests.packaging.commands import output_of, run
from tests.packaging.files import ROOT, image_environ, read_compose

TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT, "minItems": 1}


def closed(required: list[str], **properties: Any) -> dict[str, Any]:
    """A mapping with these keys and no others."""
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


DEVICE = closed(
    ["capabilities"],
    driver=TEXT,
    count={"anyOf": [{"type": "integer"}, {"const": "all"}]},
    capabilities=TEXTS,
)
SERVICE = closed(
    ["image"],
    image=TEXT,
    build=TEXT,
    profiles=TEXTS,
    entrypoint=TEXTS,
    command=TEXTS,
    environment={"type": "object", "additionalProperties": {"type": ["string", "null"]}},
    volumes=TEXTS,
    ports={"type": "array", "items": {**TEXT, "pattern": r"^[\d.]+:\d+:\d+$"}},
    networks={"type": "object", "additionalProperties": closed([], aliases=TEXTS)},
    deploy=closed(
        [], resources=closed([], reservations=closed([], devices={"type": "array", "items": DEVICE}))
    ),
    healthcheck=closed([], disable={"type": "boolean"}),
    ipc=TEXT,
    read_only={"type": "boolean"},
    cap_drop=TEXTS,
    security_opt=TEXTS,
    stop_grace_period={**TEXT, "pattern": r"^\d+s$"},
    restart={"enum": ["no", "always", "on-failure", "unless-stopped"]},
)
COMPOSE = closed(
    ["services"],
    services={"type": "object", "additionalProperties": SERVICE},
    volumes={"type": "object", "additionalProperties": {"type": "null"}},
)
"""The part of the Compose specification that the file uses: https://github.com/compose-spec/compose-spec."""


def has_compose() -> bool:
    return shutil.which("docker") is not None and run("docker", "compose", "version").returncode == 0


def model_servers() -> dict[str, Any]:
    return {name: service for name, service in read_compose()["services"].items() if name != "proxy"}


def proxy_settings(**variables: str) -> Settings:
    """What the proxy of the compose file runs with: the image's environment, then the service's own."""
    service = read_compose(**variables)["services"]["proxy"]
    return load(ROOT / "config" / "proxy.yaml", environ=image_environ() | service["environment"])


def test_has_the_shape_of_the_specification() -> None:
    jsonschema.validate(read_compose(), COMPOSE)


@pytest.mark.skipif(not has_compose(), reason="docker compose is not installed")
@pytest.mark.parametrize("profile", ["vllm", "demo"])
def test_compose_itself_accepts_it(profile: str) -> None:
    services = output_of("docker", "compose", "--profile", profile, "config", "--services").split()
    assert sorted(services) == sorted(["proxy", profile])


def test_profiles_swap_the_model_server_and_vllm_is_the_default() -> None:
    profiles = {name: service.get("profiles") for name, service in read_compose()["services"].items()}
    assert profiles == {"proxy": None, "vllm": ["vllm"], "demo": ["demo"]}
    assert "COMPOSE_PROFILES=vllm" in (ROOT / ".env").read_text().splitlines()


@pytest.mark.parametrize("name", ["vllm", "demo"])
def test_each_model_server_answers_where_the_proxy_asks(name: str) -> None:
    server = model_servers()[name]
    (upstream,) = {urlsplit(read_compose()["services"]["proxy"]["environment"]["THINK_PROXY_UPSTREAM"])}
    command = server["command"]
    assert upstream.hostname in server["networks"]["default"]["aliases"]
    assert str(upstream.port) == command[command.index("--port") + 1]
    assert command[command.index("--host") + 1] == "0.0.0.0"
    assert "ports" not in server, "only the proxy is published"


def test_the_proxy_is_published_on_the_port_that_the_image_listens_on() -> None:
    settings = proxy_settings()
    (port,) = read_compose()["services"]["proxy"]["ports"]
    assert port.rsplit(":", 1)[1] == str(settings.listen.port)
    assert settings.listen.host == "0.0.0.0"
    assert settings.upstream == "http://model-server:8000"


def test_the_proxy_is_given_the_time_that_it_takes_to_stop() -> None:
    settings = proxy_settings()
    grace = read_compose()["services"]["proxy"]["stop_grace_period"]
    assert int(grace.removesuffix("s")) > settings.drain_delay_s + settings.drain_s + 2


def test_the_mounted_file_is_the_one_that_the_image_reads() -> None:
    (mount,) = read_compose()["services"]["proxy"]["volumes"]
    assert mount == f"./config/proxy.yaml:{image_environ()['THINK_PROXY_CONFIG']}:ro"
    assert (ROOT / "config" / "proxy.yaml").is_file()


@pytest.mark.parametrize("model", ["Qwen/Qwen3-8B", "vendor/other"])
def test_the_served_model_and_the_demo_models_are_listed(model: str) -> None:
    compose = read_compose(MODEL=model)["services"]
    listed = json.loads(compose["proxy"]["environment"]["THINK_PROXY_INLINE_THINK_TAG_MODELS"])
    assert compose["vllm"]["command"][0] == model
    assert listed[0] == model
    assert set(listed[1:]) <= MODELS.keys()
    rules = RuleTable(proxy_settings(MODEL=model).entries)
    assert all(rules.find(name) for name in listed)
    assert not rules.find("demo/plain-tags")


def test_the_command_of_the_demo_service_is_understood() -> None:
    demo = model_servers()["demo"]
    python, *arguments = demo["entrypoint"]
    assert python == "python"
    known = output_of(sys.executable, *arguments, "--help").split()
    assert {word for word in demo["command"] if word.startswith("--")} <= set(known)

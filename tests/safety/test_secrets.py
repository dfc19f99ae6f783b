"""Nothing secret gets into a log at any level, an error, a header, or what describes the settings."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest

from proxy.config import ConfigError, load, render
from proxy.settings import Log, LogFormat, LogLevel, Server, Settings, Timeouts
from proxy.telemetry import configure
from tests.servers import HOST, raw_server
from tests.transport import wire
from tests.transport.proxying import LISTED, PLAIN, proxying
from tests.transport.test_logs import log, misbehave

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["log"]  # a fixture

PROMPT = "s3cret-planted"  # what `misbehave` says, too
OUR_KEY = "sk-opens-the-proxy-5ec4e7"
CLIENT_KEY = "sk-of-the-client-5ec4e7"
SERVER_KEY = "sk-of-the-server-5ec4e7"
SECRETS = (PROMPT, OUR_KEY, CLIENT_KEY, SERVER_KEY)

WAYS = ("garbage", "bad header", "bad chunk", "break", "silence", "error", "strange", "fine")


def told(text: str | bytes) -> set[str]:
    """Return the secrets in a text."""
    raw = text if isinstance(text, bytes) else text.encode()
    return {secret for secret in SECRETS if secret.encode() in raw}


LOGGERS = ("think_proxy", "uvicorn", "uvicorn.error", "uvicorn.asgi", "asyncio")


@pytest.fixture
def everything() -> Iterator[Callable[[logging.Handler], None]]:
    """Give a handler all that is logged, at levels that no setting of the proxy gives to libraries."""
    heard: list[tuple[logging.Logger, logging.Handler, int]] = []

    def hear(handler: logging.Handler) -> None:
        for name in LOGGERS:
            logger = logging.getLogger(name)
            heard.append((logger, handler, logger.level))
            logger.addHandler(handler)
            logger.setLevel(logging.DEBUG)

    yield hear
    for logger, handler, level in heard:
        logger.removeHandler(handler)
        logger.setLevel(level)


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize("log_format", list(LogFormat))
async def test_nothing_secret_is_in_a_log_or_an_error(
    log_format: LogFormat,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    everything: Callable[[logging.Handler], None],
) -> None:
    configure(Log(LogLevel.DEBUG, log_format))
    everything(caplog.handler)
    refusals: list[bytes] = []
    async with raw_server(misbehave) as upstream:
        times = Timeouts(idle_s=0.05)
        servers = (
            Server("mine", upstream.url, models=(LISTED, "x*"), api_key=SERVER_KEY, timeouts=times),
            Server("theirs", upstream.url, models=(PLAIN, "*-5"), timeouts=times),
            Server("down", f"http://{HOST}:1", models=("down",), api_key=SERVER_KEY),
        )
        async with proxying(servers, api_keys=(OUR_KEY,), keep_alive_s=0.01) as proxy:
            for opening in (f"x-api-key: {OUR_KEY}", "x-api-key: wrong"):
                fields = (
                    opening,
                    f"authorization: Bearer {CLIENT_KEY}",
                    f"cookie: {PROMPT}",
                    f"x-prompt: {PROMPT}",
                    f"x-request-id: {PROMPT}!",
                    "connection: close",
                )
                messages = [{"role": "user", "content": PROMPT}]
                requests = [
                    *(
                        wire.chat(model, *fields, user=how, messages=messages, stream=how != "fine")
                        for model in (LISTED, PLAIN)
                        for how in WAYS
                    ),
                    wire.chat("down", *fields, messages=messages),
                    wire.chat(PROMPT, *fields, messages=messages),
                    wire.request("/v1/chat/completions", PROMPT.encode(), *fields),
                    wire.request("/v1/chat/completions", json.dumps({PROMPT: PROMPT}).encode(), *fields),
                    wire.request("/v1/completions", json.dumps({"prompt": PROMPT}).encode(), *fields),
                    wire.request("/v1/responses", json.dumps({"input": PROMPT}).encode(), *fields),
                    wire.request(f"/v1/models?key={CLIENT_KEY}", None, *fields),
                    wire.request(f"/v1/{PROMPT}", None, *fields),
                    wire.request(f"/{PROMPT}?{OUR_KEY}", None, *fields),
                    f"GET /{PROMPT} {OUR_KEY}\r\n\r\n".encode(),
                    f"GET / HTTP/1.1\r\n{PROMPT}: {OUR_KEY}\x00\r\n\r\n".encode(),
                ]
                for request in requests:
                    async with proxy.connect() as client:
                        await client.send(request)
                        answer = await client.rest()
                        assert not told(answer) - {PROMPT}, request
                        if b'"proxy_' in answer and b"event-stream" not in answer:
                            refusals.append(answer)
            async with proxy.connect() as client:
                scraped = await client.ask(wire.request("/metrics", None, f"x-api-key: {OUR_KEY}"))
    assert f'entry="{LISTED}"'.encode() in scraped.body
    assert not told(repr(scraped))
    assert len(refusals) > len(requests)
    assert not told(b"".join(refusals))
    out, err = capfd.readouterr()
    assert err.count("request_id") >= 2 * len(requests)
    assert "Traceback" not in err
    assert not told(out + err)
    assert not told(caplog.text)
    assert not told("".join(repr(record.__dict__) for record in caplog.records))


async def test_health_and_the_list_of_models_tell_nothing() -> None:
    async with raw_server(misbehave) as upstream:
        servers = tuple(Server(name, upstream.url, api_key=SERVER_KEY) for name in ("a", "b"))
        async with proxying(servers, api_keys=(OUR_KEY,)) as proxy, proxy.connect() as client:
            for path in ("/healthz", "/readyz", "/metrics", "/v1/models"):
                assert not told(repr(await client.ask(wire.request(path))))
            reply = await client.ask(wire.request("/v1/models", None, f"x-api-key: {OUR_KEY}"))
            assert not told(repr(reply)) - {PROMPT}


def test_settings_do_not_show_their_keys(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(OUR_KEY)
    text = (
        f"apiKeys: ['${{OURS}}']\napiKeysFile: {keys}\n"
        "upstreams: {a: {url: http://h, apiKey: '${THEIRS}'}}\n"
    )
    file = tmp_path / "proxy.yaml"
    file.write_text(text)
    settings = load(file, environ={"OURS": CLIENT_KEY, "THEIRS": SERVER_KEY})
    assert isinstance(settings, Settings)
    for shown in (repr(settings), str(settings.upstreams), "\n".join(render(settings))):
        assert not told(shown)
    file.write_text(text.replace("http://h", "h").replace("${OURS}", "${OURS} "))
    with pytest.raises(ConfigError) as caught:
        load(file, environ={"OURS": CLIENT_KEY, "THEIRS": SERVER_KEY})
    assert len(caught.value.problems) == 2
    assert not told(str(caught.value))

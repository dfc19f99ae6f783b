"""The official client, over real sockets, in front of the demo server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import openai
import pytest

from proxy.app import App
from proxy.demo import Stats, build_app
from proxy.demo_answers import MODELS
from proxy.rules import Rule
from proxy.serve import beside
from proxy.settings import Entry
from tests.servers import WAIT_S, raw_server, serving
from tests.transport import wire
from tests.transport.proxying import LISTED, settings_for

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Iterator

    from openai.types.chat import ChatCompletionChunk

    from tests.servers import RawRequest

QUESTION: list[Any] = [{"role": "user", "content": "Hello?"}]
ENTRIES = tuple(Entry(name, Rule()) for name in ("demo/thinker", "demo/coder", LISTED))
FOREVER_S = 86_400.0


def connect(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with (
        serving(build_app(pace_s=0)) as upstream,
        beside(App(settings_for(upstream, entries=ENTRIES))) as base_url,
    ):
        yield base_url


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[openai.OpenAI]:
    with connect(url) as client:
        yield client


def read_stream(client: openai.OpenAI, model: str, **options: Any) -> tuple[str, str, list[str]]:
    reasoning, content, finishes = "", "", []
    with client.chat.completions.create(model=model, messages=QUESTION, stream=True, **options) as stream:
        for chunk in stream:
            for choice in chunk.choices:
                thought = getattr(choice.delta, "reasoning_content", None)
                assert not (thought and choice.delta.content)
                reasoning += thought or ""
                content += choice.delta.content or ""
                finishes += [choice.finish_reason] if choice.finish_reason else []
    return reasoning, content, finishes


def test_a_listed_model_thinks_apart(client: openai.OpenAI) -> None:
    reasoning, content, finishes = read_stream(client, "demo/thinker")
    assert "A greeting, then." in reasoning
    assert "Half-way." in reasoning
    assert content.startswith("Hello! This is the half")
    assert "Picture a river with two currents 🌊" in content
    assert "think>" not in reasoning + content
    assert finishes == ["stop"]


def test_quoted_tags_stay(client: openai.OpenAI) -> None:
    reasoning, content, _ = read_stream(client, "demo/coder")
    assert "quote the tags" in reasoning
    assert '    return text.rpartition("</think>")[2].lstrip()\n' in content
    assert content.startswith("This keeps what comes after")


@pytest.mark.parametrize("model", ["demo/thinker", "demo/coder"])
def test_a_whole_answer_says_the_same_as_a_stream(client: openai.OpenAI, model: str) -> None:
    answer = client.chat.completions.create(model=model, messages=QUESTION)
    message = answer.choices[0].message
    reasoning, content, _ = read_stream(client, model)
    assert (getattr(message, "reasoning_content", None), message.content) == (reasoning, content)
    assert answer.usage is not None
    assert answer.usage.completion_tokens > 0


def test_an_unlisted_model_is_left_alone(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="demo/plain-tags", messages=QUESTION)
    text = MODELS["demo/plain-tags"].answers[0]
    assert answer.choices[0].message.content == text
    assert read_stream(client, "demo/plain-tags") == ("", text, ["stop"])


def test_choices_are_split_each_for_itself(client: openai.OpenAI) -> None:
    with client.chat.completions.create(
        model="demo/thinker", messages=QUESTION, stream=True, n=2, stream_options={"include_usage": True}
    ) as stream:
        *chunks, last = stream
    contents = ["", ""]
    for chunk in chunks:
        for choice in chunk.choices:
            contents[choice.index] += choice.delta.content or ""
    assert contents[0].startswith("Hello!")
    assert contents[1].startswith("A thought may come")
    assert last.usage is not None


def test_other_endpoints(client: openai.OpenAI) -> None:
    assert {model.id for model in client.models.list()} == set(MODELS)


def test_the_servers_errors_are_its_own(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as through:
        client.chat.completions.create(model="no/such", messages=QUESTION)
    assert "Valid aliases" in through.value.message
    with pytest.raises(openai.BadRequestError, match="temperature must be non-negative"):
        client.chat.completions.create(model="demo/thinker", messages=QUESTION, temperature=-1)
    assert through.value.request_id


def test_our_errors_are_read_by_the_client(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.get("/no/such/path", cast_to=object)
    assert caught.value.type == "proxy_request_error"
    assert caught.value.code == "not_found"


def test_an_unreachable_server() -> None:
    app = App(settings_for("http://127.0.0.1:1"))
    with (
        beside(app) as url,
        connect(url) as client,
        pytest.raises(openai.InternalServerError) as caught,
    ):
        client.chat.completions.create(model="demo/thinker", messages=QUESTION)
    assert (caught.value.status_code, caught.value.code) == (502, "upstream_unreachable")


async def test_a_stream_that_breaks_raises_in_the_client() -> None:
    async def script(_: RawRequest, __: StreamReader, writer: StreamWriter) -> None:
        writer.write(wire.STREAM_HEAD + wire.chunk(wire.event("<think>a</think>b <thi")))

    contents: list[str] = []

    async def read(stream: openai.AsyncStream[ChatCompletionChunk]) -> None:
        async for chunk in stream:
            contents.append(chunk.choices[0].delta.content or "")  # noqa: PERF401 - what came first is kept

    async with raw_server(script) as upstream:
        with beside(App(settings_for(upstream.url))) as url:
            async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
                stream = await client.chat.completions.create(model=LISTED, messages=QUESTION, stream=True)
                with pytest.raises(openai.APIError, match="closed the connection"):
                    await read(stream)
    assert "".join(contents) == "b <thi"


@pytest.mark.parametrize("model", ["demo/thinker", "demo/plain-tags"])
@pytest.mark.parametrize("stream", [True, False])
async def test_cancelling_reaches_the_model_server(model: str, stream: bool) -> None:
    app = build_app(pace_s=FOREVER_S)
    stats: Stats = app.state.stats

    async def ask(url: str) -> None:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
            create = client.chat.completions.create
            if stream:
                async for _ in await create(model=model, messages=QUESTION, stream=True):
                    pass
            else:
                await create(model=model, messages=QUESTION)

    with (
        serving(app) as upstream,
        beside(App(settings_for(upstream, entries=ENTRIES))) as url,
    ):
        task = asyncio.create_task(ask(url))
        assert await asyncio.to_thread(stats.wait_until, lambda now: now.open_streams == 1, WAIT_S)
        task.cancel()
        await asyncio.wait([task])
        assert await asyncio.to_thread(stats.wait_until, lambda now: now.aborted == 1, WAIT_S)
    assert (stats.requests, stats.open_streams) == (1, 0)

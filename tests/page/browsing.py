"""A real Chromium, and model servers that say what a test wants to see."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.transport import wire

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page
    from starlette.requests import Request

FLAGS = (
    "--no-sandbox",  # the tests may run as root, in a container
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)


def find_chromium() -> str:
    """Return the path of a Chromium of this machine; nothing is downloaded."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.fail("there is no chromium here; CHROMIUM names one")
    return path


@dataclass
class View:
    """A page that is open, and what went wrong or out in it."""

    page: Page
    problems: list[str] = field(default_factory=list)
    """Errors of scripts, and what the console calls errors or warnings."""
    asked: list[str] = field(default_factory=list)
    """Every address that it asked for."""

    def texts(self, selector: str) -> list[str]:
        return [text.strip() for text in self.page.locator(selector).all_text_contents()]

    def wait_told(self, text: str) -> None:
        """Wait until the bench says this."""
        self.page.wait_for_function(
            "text => document.getElementById('told').textContent.includes(text)", arg=text
        )

    def run(self, model: str, *, rule: str = "inForce", prompt: str = "hi") -> None:
        """Fill in the bench and run it."""
        self.page.wait_for_selector(f'#model option[value="{model}"]', state="attached")
        self.page.select_option("#model", model)
        self.page.select_option("#rule", rule)
        self.page.fill("#prompt", prompt)
        self.page.click("#run")

    def marks(self) -> list[tuple[str, str]]:
        """Return what the raw side shows, piece by piece: `mark`, `del`, `span`, or `held`."""
        found = self.page.evaluate(
            """() => [...document.getElementById('raw').children]
                .filter(node => !node.classList.contains('sr'))
                .map(node => [node.className === 'wait-text' ? 'held' : node.localName, node.textContent])"""
        )
        return [(kind, text) for kind, text in found]

    def parts(self) -> list[tuple[str, str]]:
        """Return what the other side shows, part by part; a line break at its head is an arrow."""
        found = self.page.evaluate(
            """() => [...document.querySelectorAll('#split .part')]
                .map(node => [node.firstChild.textContent, node.lastChild.textContent])"""
        )
        return [(kind, text) for kind, text in found]


@contextmanager
def viewing(browser: Browser, url: str, **options: Any) -> Iterator[View]:
    """Open the page of a proxy in a window of its own; `options` are those of a browser context."""
    context = browser.new_context(**options)
    context.set_default_timeout(10_000)
    page = context.new_page()
    view = View(page)
    page.on("pageerror", lambda error: view.problems.append(str(error)))
    page.on(
        "console",
        lambda message: view.problems.append(message.text) if message.type in ("error", "warning") else None,
    )
    page.on("request", lambda request: view.asked.append(request.url))
    try:
        page.goto(f"{url}/_proxy/")
        yield view
    finally:
        context.close()


def visible(text: str) -> str:
    """Write white space as the page writes what was removed."""
    return text.replace("\r\n", "↵").replace("\n", "↵").replace(" ", "·").replace("\t", "·")


def build_scripted(answers: dict[str, list[str]], *, model: str = "m", finish: str = "stop") -> Starlette:
    """Build a model server that answers a prompt with the pieces given for it."""

    async def chat(request: Request) -> Response:
        asked = await request.json()
        pieces = answers[asked["messages"][-1]["content"]]
        events = [*(wire.event(piece) for piece in pieces), wire.event("", finish), wire.DONE]

        async def body() -> Any:
            for event in events:
                yield event

        return StreamingResponse(body(), media_type="text/event-stream")

    async def models(_: Request) -> Response:
        return Response(
            json.dumps({"object": "list", "data": [{"id": model}]}), media_type="application/json"
        )

    async def health(_: Request) -> Response:
        return JSONResponse({})

    return Starlette(
        routes=[
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/models", models),
            Route("/health", health),
        ]
    )

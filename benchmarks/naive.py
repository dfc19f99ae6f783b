"""The proxy one writes first: FastAPI, httpx, StreamingResponse. A peer of the benchmark.

Usage: python benchmarks/naive.py --port P --upstream URL
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import httpx
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from starlette.background import BackgroundTask

if TYPE_CHECKING:
    from fastapi import Response


def make_app(upstream: str) -> FastAPI:
    """Return an application that passes chat completions through to `upstream`."""
    app = FastAPI()
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=2000)
    client = httpx.AsyncClient(base_url=upstream, limits=limits, timeout=60)

    @app.get("/healthz")
    async def report_health() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/v1/chat/completions", response_model=None)
    async def relay(request: Request) -> Response:
        headers = {"content-type": "application/json"}
        asked = client.build_request("POST", request.url.path, content=await request.body(), headers=headers)
        answer = await client.send(asked, stream=True)
        return StreamingResponse(
            answer.aiter_raw(),
            status_code=answer.status_code,
            media_type=answer.headers["content-type"],
            background=BackgroundTask(answer.aclose),
        )

    return app


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--port", type=int, required=True)
    options.add_argument("--upstream", required=True)
    given = options.parse_args()
    uvicorn.run(
        make_app(given.upstream), host="127.0.0.1", port=given.port, access_log=False, log_level="warning"
    )

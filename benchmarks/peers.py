"""The proxies that are compared: how each is started, and what it owes the client."""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, sleep
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

HERE = Path(__file__).resolve().parent
READY_S = 120.0  # LiteLLM takes its time

_NGINX = """\
daemon off; worker_processes 1; {user} pid {work}/nginx.pid; error_log stderr warn;
events {{ worker_connections 8192; }}
http {{
  access_log off; client_max_body_size 64m; client_body_temp_path {work}/body; proxy_temp_path {work}/proxy;
  fastcgi_temp_path {work}/fastcgi; uwsgi_temp_path {work}/uwsgi; scgi_temp_path {work}/scgi;
  keepalive_requests 1000000;
  upstream model {{ server 127.0.0.1:{upstream}; keepalive 2048; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location = /healthz {{ return 200; }}
    location / {{
      proxy_pass http://model; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; proxy_request_buffering off; proxy_read_timeout 600s;
    }}
  }}
}}
"""


@dataclass(frozen=True)
class Peer:
    """One row of the table."""

    name: str
    command: Sequence[str]
    port: int
    kind: str = "plain"  # first half of the model name asked for
    expect: str = "raw"  # what the client holds it to, see client.py
    ready_path: str = "/healthz"
    load: float = 1.0  # share of the load, for peers that could not carry all of it
    environment: Mapping[str, str] = field(default_factory=dict)
    version: str = ""  # names and versions of what it is
    directory: Path = HERE.parent


@dataclass(frozen=True)
class Running:
    """A peer that answers. `pid` is None for the server itself, which is no proxy."""

    peer: Peer
    pid: int | None
    ready_s: float


def find_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def read_nginx_version(nginx: str) -> str:
    """Return the name and version that nginx tells of itself."""
    told = subprocess.run([nginx, "-v"], capture_output=True, check=True, text=True).stderr
    return told.rpartition(" ")[2].strip().replace("/", " ")


def read_package_versions(python: Path, *packages: str) -> str:
    """Return packages with their versions in the environment of `python`; names alone, if it is none."""
    code = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
    try:
        done = subprocess.run([python, "-c", code, *packages], capture_output=True, check=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return ", ".join(packages)
    return ", ".join(f"{name} {version}" for name, version in zip(packages, done.stdout.split(), strict=True))


def list_peers(upstream: int, work: Path) -> list[Peer]:
    """Return every peer that is installed, set up for the server at port `upstream`; files go to `work`."""
    url = f"http://127.0.0.1:{upstream}"
    peers = [Peer("direct", (), upstream, ready_path="/health")]
    command: tuple[str, ...]
    if nginx := shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin"):
        port, conf = find_port(), work / "nginx.conf"
        user = "user root;" if os.geteuid() == 0 else ""
        conf.write_text(_NGINX.format(user=user, work=work, upstream=upstream, port=port))
        command = (nginx, "-p", str(work), "-c", str(conf))
        peers.append(Peer("nginx", command, port, version=read_nginx_version(nginx)))
    if importlib.util.find_spec("proxy"):
        from proxy import __version__  # noqa: PLC0415 - it may be missing

        config = work / "proxy.yaml"
        config.write_text(json.dumps({"upstream": url, "inlineThinkTagModels": ["split/*"]}))
        for name, kind, expect in (("ours, split", "split", "split"), ("ours, passthrough", "plain", "raw")):
            port = find_port()
            command = (sys.executable, "-m", "proxy", "serve", "--config", str(config), "--port", str(port))
            version = f"think-proxy {__version__}"
            peers.append(Peer(name, command, port, kind=kind, expect=expect, version=version))
    port = find_port()
    naive = (sys.executable, str(HERE / "naive.py"), "--port", str(port), "--upstream", url)
    version = read_package_versions(Path(sys.executable), "fastapi", "httpx", "uvicorn")
    peers.append(Peer("FastAPI + httpx", naive, port, version=version))
    if router := shutil.which(os.environ.get("BENCH_VLLM_ROUTER", "vllm-router")):
        port, metrics = find_port(), find_port()
        command = (
            router,
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--worker-urls",
            url,
            "--policy",
            "round_robin",
        )
        command += ("--prometheus-port", str(metrics), "--log-level", "error")
        version = read_package_versions(Path(router).with_name("python"), "vllm-router")
        peers.append(Peer("vllm-router", command, port, ready_path="/health", version=version))
    if litellm := shutil.which(os.environ.get("BENCH_LITELLM", "litellm")):
        port, config = find_port(), work / "litellm.yaml"
        target = {"model": "openai/*", "api_base": f"{url}/v1", "api_key": "sk-bench"}
        config.write_text(json.dumps({"model_list": [{"model_name": "*", "litellm_params": target}]}))
        command = (litellm, "--config", str(config), "--host", "127.0.0.1", "--port", str(port))
        environment = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}
        # It listens on loopback, for minutes.
        environment["LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY"] = "true"
        ready = "/health/liveliness"
        version = read_package_versions(Path(litellm).with_name("python"), "litellm")
        peers.append(
            Peer("LiteLLM", command, port, "plain", "text", ready, 0.1, environment, version=version)
        )
    return peers


@contextmanager
def start(peer: Peer, core: int) -> Iterator[Running]:
    """Run the peer on `core` until the block ends; raise RuntimeError when it does not get ready."""
    if not peer.command:
        yield Running(peer, None, 0.0)
        return
    with tempfile.TemporaryFile() as log:
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {core})  # a child inherits it before it runs its first instruction
        began = perf_counter()
        environment = os.environ | peer.environment
        process = subprocess.Popen(peer.command, stdout=log, stderr=log, env=environment, cwd=peer.directory)
        os.sched_setaffinity(0, allowed)
        try:
            while not answers(peer.port, peer.ready_path):
                if process.poll() is not None or perf_counter() - began > READY_S:
                    log.seek(0)
                    said = log.read()[-2000:].decode(errors="replace")
                    raise RuntimeError(f"{peer.name} did not get ready: {said}")
                sleep(0.005)
            yield Running(peer, process.pid, perf_counter() - began)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def answers(port: int, path: str) -> bool:
    """Return whether a GET of `path` is answered with 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()

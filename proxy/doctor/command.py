"""`think-proxy doctor`, from the command line to the exit code."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from proxy.config.problems import ConfigError
from proxy.config.values import is_key
from proxy.doctor.display import show
from proxy.doctor.insertion import InsertionError
from proxy.doctor.interview import Interview
from proxy.doctor.leaks import inspect
from proxy.doctor.modelserver import Listing, Model, ModelServer
from proxy.doctor.progress import telling
from proxy.doctor.report import Report, describe
from proxy.doctor.trouble import ListError, TroubleError
from proxy.doctor.verdict import diagnose
from proxy.doctor.writing import write
from proxy.terminal import escape, make_console

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

MAX_MODELS = 16
"""Models that are asked unless they are named: a gateway lists hundreds."""


def run(options: argparse.Namespace) -> NoReturn:
    """Ask, print, and exit with the code that `--help` explains."""
    api_key = _read_key(options.api_key_env)
    try:
        report = asyncio.run(_examine(options, api_key))
        if options.write is not None and any(verdict.refusal is None for verdict in report.verdicts):
            report = _write(report, options.write)
    except (TroubleError, ConfigError) as error:
        _give_up(str(error), as_json=options.as_json)
    if options.as_json:
        sys.stdout.write(json.dumps(describe(report)) + "\n")
    else:
        # Names of models may hold what the terminal's encoding has no sign for.
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace")
        show(report, make_console(sys.stdout))
    sys.stdout.flush()
    sys.exit(report.exit_code)


def _write(report: Report, file: Path) -> Report:
    try:
        return replace(report, written=write(file, report.url, report.verdicts))
    except InsertionError:
        raise TroubleError(
            f"{file} is written in a way that nothing can be added to safely: add it by hand.\n\n"
            f"{report.yaml}"
        ) from None
    except OSError as error:
        raise TroubleError(f"{file}: {error.strerror or error}") from None


async def _examine(options: argparse.Namespace, api_key: str | None) -> Report:
    server = ModelServer(options.upstream, api_key=api_key, timeout_s=options.timeout)
    names: list[str] = options.names
    try:
        listing = await _list(server, names)
        version = await server.find_proxy()
        if version is not None and options.write is not None:
            raise TroubleError(
                f"{server.url} is a running think-proxy: --write takes the model server's own address."
            )
        asked = _pick(listing, names)
        verdicts, inspections = [], []
        with telling(len(asked)) as begin:
            for number, model in enumerate(asked, 1):
                interview = Interview(server, model.name, begin(number, model.name))
                if version is None:
                    verdicts.append(diagnose(model.name, await interview.run(), root=model.root))
                else:
                    inspections.append(inspect(model.name, await interview.check()))
    finally:
        await server.close()
    return Report(
        server.url,
        listing.kind if version is None else "think-proxy",
        listing.version if version is None else version,
        tuple(verdicts),
        tuple(inspections),
        0 if names else len(listing.models) - len(asked),
    )


async def _list(server: ModelServer, names: Sequence[str]) -> Listing:
    try:
        return await server.list_models()
    except ListError:
        if not names:
            raise
        return Listing("a model server", None, ())


def _pick(listing: Listing, names: Sequence[str]) -> list[Model]:
    if not names:
        if not listing.models:
            raise TroubleError("The server lists no models: name one with --model.")
        return list(listing.models[:MAX_MODELS])
    known = {model.name: model for model in listing.models}
    return [known.get(name) or Model(name) for name in dict.fromkeys(names)]


def _read_key(variable: str | None) -> str | None:
    """Return the key in a variable; neither it nor the variable's name is printed, it may be a slip."""
    if variable is None:
        return None
    key = os.environ.get(variable, "")
    if is_key(key):
        return key
    what = "holds no key: printable ASCII without spaces" if key else "is not set"
    sys.stderr.write(f"think-proxy doctor: the variable that --api-key-env names {what}\n")
    sys.exit(2)


def _give_up(problem: str, *, as_json: bool) -> NoReturn:
    if as_json:
        sys.stdout.write(json.dumps({"error": problem, "exitCode": 1}) + "\n")
        sys.stdout.flush()
    else:
        lines = escape(problem).rstrip()
        sys.stderr.write(f"think-proxy doctor: {lines}\n")
    sys.exit(1)

"""The command `think-proxy`."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proxy import __version__, config
from proxy.doctor.arguments import add_parser as add_doctor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.settings import Settings

_DEMO_MODELS = ["demo/thinker", "demo/coder"]
"""Listed by `demo`; its other models show what an unlisted one looks like."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line.

    Exits with 1 on a faulty configuration or when the address cannot be had, with 2 on a faulty command
    line, and with 130 when it was interrupted before it served.
    """
    defaults = argparse.Namespace(
        run=_serve_or_demo,
        config=None,
        host=None,
        port=None,
        upstream=None,
        models=None,
        workers=1,
        model=None,
        as_json=False,
        file=None,
    )
    # What is imported and built now stays: looking for garbage in it only delays the start. `serve` turns
    # the collector on again.
    gc.disable()
    options = _build_parser().parse_args(arguments, defaults)
    try:
        options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has seen enough. Python writes what is left at its end, and must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except config.ConfigError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def _build_parser() -> argparse.ArgumentParser:
    # Options are taken before and behind a command: without defaults, the one does not undo the other.
    reading = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    reading.add_argument(
        "--config", type=Path, metavar="FILE", help="the configuration (default: config/proxy.yaml)"
    )
    listening = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS, parents=[reading])
    listening.add_argument("--host", help="the address to listen on")
    listening.add_argument("--port", type=int, help="the port to listen on; 0 takes a free one")
    relaying = argparse.ArgumentParser(
        add_help=False, argument_default=argparse.SUPPRESS, parents=[listening]
    )
    relaying.add_argument("--upstream", metavar="URL", help="the model server")
    relaying.add_argument(
        "--inline-think-model",
        dest="models",
        nargs="+",
        action="extend",
        metavar="NAME",
        help="a model, or a glob, whose thinking comes in its text",
    )

    parser = argparse.ArgumentParser(
        prog="think-proxy",
        parents=[listening],
        description="Gives thinking models behind vLLM, SGLang or llama.cpp the fields that clients expect.",
        epilog="Without a command: serve if the configuration names an upstream, else demo.",
    )
    parser.add_argument("--version", action="version", version=f"think-proxy {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    serve = commands.add_parser(
        "serve", parents=[relaying], argument_default=argparse.SUPPRESS, help="run the proxy"
    )
    serve.add_argument("--workers", type=_read_count, metavar="N", help="processes on the one port")
    serve.set_defaults(run=_serve)

    demo = commands.add_parser("demo", parents=[listening], help="run it in front of a built-in model server")
    demo.set_defaults(run=_demo)

    check = commands.add_parser(
        "check", parents=[relaying], help="validate the configuration, print the rule per entry"
    )
    check.set_defaults(run=_check)

    split = commands.add_parser(
        "split",
        parents=[reading],
        argument_default=argparse.SUPPRESS,
        help="split a recorded answer, offline",
    )
    split.add_argument("--model", help="whose rule counts (default: the one the recording names)")
    split.add_argument("--json", dest="as_json", action="store_true", help="print one JSON object")
    split.add_argument(
        "file",
        nargs="?",
        default=None,
        type=Path,
        metavar="FILE",
        help="a .sse, .json or text file; - or nothing reads standard input",
    )
    split.set_defaults(run=_split)

    add_doctor(commands).set_defaults(run=_doctor)
    return parser


def _read_count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise ValueError
    return count


_read_count.__name__ = "number of at least 1"  # as argparse's message names it


def _load(options: argparse.Namespace, **overrides: Any) -> Settings:
    listen = {"host": options.host, "port": options.port}
    return config.load(options.config, overrides={"listen": listen, **overrides})


def _load_all(options: argparse.Namespace) -> Settings:
    return _load(options, upstream=options.upstream, inlineThinkTagModels=options.models)


def _serve(options: argparse.Namespace) -> None:
    # Imported late: `check` and `--help` need no server.
    from proxy.reload import ConfigSource  # noqa: PLC0415

    source = ConfigSource(lambda: _load_all(options), options.config)
    if not source.settings.servers:
        print(
            "think-proxy: no model server is configured: set `upstream` in the configuration, "
            "THINK_PROXY_UPSTREAM, or --upstream URL (`think-proxy demo` needs none).",
            file=sys.stderr,
        )
        sys.exit(1)
    from proxy.serve import serve  # noqa: PLC0415

    serve(source, workers=options.workers)


def _demo(options: argparse.Namespace) -> None:
    from proxy.demo import build_app  # noqa: PLC0415
    from proxy.reload import ConfigSource  # noqa: PLC0415
    from proxy.serve import beside, serve  # noqa: PLC0415

    # A faulty configuration is to be told before the model server starts.
    _load(options, inlineThinkTagModels=_DEMO_MODELS)
    with beside(build_app()) as url:
        serve(
            ConfigSource(
                lambda: replace(
                    _load(options, inlineThinkTagModels=_DEMO_MODELS), upstream=url, upstreams=()
                ),
                options.config,
            ),
            "think-proxy on {url}, in front of the demo models "
            "demo/thinker, demo/coder (listed), demo/plain-tags and demo/implicit (not listed)",
        )


def _check(options: argparse.Namespace) -> None:
    settings = _load_all(options)
    notes = []
    if not settings.servers:
        notes.append("# No model server is configured: `serve` needs one.")
    if not settings.entries:
        notes.append("# No model is listed: every answer passes through untouched.")
    print("\n".join([*notes, *config.render(settings)]))


def _split(options: argparse.Namespace) -> None:
    from proxy.split_command import STDIN, run  # noqa: PLC0415

    run(options.file or STDIN, model=options.model, config_file=options.config, as_json=options.as_json)


def _doctor(options: argparse.Namespace) -> None:
    from proxy.doctor.command import run  # noqa: PLC0415

    run(options)


def _serve_or_demo(options: argparse.Namespace) -> None:
    if _load(options).servers:
        _serve(options)
    else:
        _demo(options)

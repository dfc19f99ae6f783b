"""The command line of `think-proxy doctor`."""

from __future__ import annotations

import argparse
import math
import re
from pathlib import Path

from proxy.config.values import read_upstream

TIMEOUT_S = 120.0
"""Seconds for a question, unless the command line says otherwise."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CODES = """\
exit codes:
  0  configuration printed, or none is needed; a running proxy leaks nothing
  1  tags leak, no model answered, the server cannot be reached, or FILE cannot be written to
  2  faulty command line
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add the command to those of the parser, and return its own."""
    doctor = commands.add_parser(
        "doctor",
        help="ask a model server how its models think, and print the configuration that fits",
        description="Asks each model of a server a few short questions, says how its thinking comes, and\n"
        "prints the configuration that fits. With the address of a running think-proxy it\n"
        "verifies that nothing leaks.",
        epilog=_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    doctor.add_argument(
        "--upstream",
        type=_read_url,
        required=True,
        metavar="URL",
        help="the model server, or a running proxy",
    )
    doctor.add_argument(
        "--model",
        dest="names",
        action="append",
        default=[],
        metavar="NAME",
        help="ask this one only; repeatable",
    )
    doctor.add_argument(
        "--api-key-env",
        type=_read_variable,
        metavar="NAME",
        help="the environment variable that holds the server's key",
    )
    doctor.add_argument(
        "--write", type=Path, metavar="FILE", help="write it into this file; what it says already stays"
    )
    doctor.add_argument("--json", dest="as_json", action="store_true", help="print one JSON object")
    doctor.add_argument(
        "--timeout",
        type=_read_seconds,
        default=TIMEOUT_S,
        metavar="SECONDS",
        help=f"for each question (default: {TIMEOUT_S:g})",
    )
    return doctor


def _read_url(text: str) -> str:
    try:
        return read_upstream(text)
    except ValueError as error:
        # It may hold a password: argparse, left to itself, would repeat it.
        raise argparse.ArgumentTypeError(str(error)) from None


def _read_variable(text: str) -> str:
    if not _VARIABLE.fullmatch(text):
        raise argparse.ArgumentTypeError("takes the name of an environment variable, not the key itself")
    return text


def _read_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError("must be a number of seconds, more than 0")
    return seconds

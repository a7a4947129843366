"""``%%train``: a cell as a job. Sugar over ``pool.submit``."""

from __future__ import annotations

import argparse
import shlex
from typing import Any, NoReturn, Protocol

from springtide.widgets.errors import OptionError
from springtide.widgets.handle import Job
from springtide.widgets.options import Options
from springtide.widgets.shared_pool import Pool

TIME_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Shell(Protocol):
    """What the magic needs of IPython."""

    user_ns: dict[str, Any]
    user_ns_hidden: dict[str, Any]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        msg = f"%%train: {message}. {self.format_usage().strip()}"
        raise OptionError(msg)


def train(shell: Shell, line: str, cell: str, pool: Pool | None = None) -> Job:
    """Run the magic: submit the cell with the options of the line, bind the handle to the name after ``--to``."""
    try:
        given = vars(_parser().parse_args(shlex.split(line)))
    except ValueError as error:
        msg = f"%%train: {error} in {line!r}."
        raise OptionError(msg) from None
    name = given.pop("to")
    if name and not name.isidentifier():
        msg = f"%%train: --to takes the name of a variable, not {name!r}."
        raise OptionError(msg)
    given["env"] = dict(given["env"] or ())
    options = Options(**{key: value for key, value in given.items() if value is not None})
    job = (pool or Pool()).submit_cell(cell, shell.user_ns, shell.user_ns_hidden, options)
    if name:
        shell.user_ns[name] = job
    return job


def seconds(text: str) -> float:
    """``90``, ``10m``, ``2h`` or ``1d`` in seconds."""
    unit = TIME_UNITS.get(text[-1:])
    try:
        return float(text[:-1] if unit else text) * (unit or 1)
    except ValueError:
        msg = f"{text!r} is no time such as 90, 10m, 2h or 1d"
        raise argparse.ArgumentTypeError(msg) from None


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="%%train", add_help=False, allow_abbrev=False)
    for name in ("gpus", "workers", "min-workers", "retries"):
        parser.add_argument(f"--{name}", type=int)
    for name in ("name", "project", "require", "prefer", "image", "to"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--priority", type=lambda text: int(text) if text.isdecimal() else text)
    parser.add_argument("--gpu-types", nargs="+")
    parser.add_argument("--time-limit", type=seconds)
    parser.add_argument("--grace", type=seconds)
    parser.add_argument("--env", type=_variable, action="append")
    parser.add_argument("--no-rotate", dest="rotate", action="store_const", const=False)
    parser.add_argument("--not-preemptible", dest="preemptible", action="store_const", const=False)
    return parser


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        msg = f"{text!r} is not of the form NAME=VALUE"
        raise argparse.ArgumentTypeError(msg)
    return name, value

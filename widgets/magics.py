"""``%%train``: submit a cell as a job, with the options of its first line."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import click

from springtide.scheduler import wording
from springtide.scheduler.client.flags import flags, given
from springtide.scheduler.wire import Surface
from springtide.scheduler.wire.form_fields import typed_options
from springtide.widgets.errors import OptionError
from springtide.widgets.job import Job
from springtide.widgets.shared_pool import Pool
from springtide.widgets.submission.magic_lines import MAGIC

GPU_TYPES = "--gpu-types"
HELP = """Run the cell in the shared pool, in a process of its own.

The cell gets the variables that it reads from the notebook, as they are now. The value of its last line is the
result of the job; nothing else comes back. The handle of the job is the output of the cell.
"""


class Shell(Protocol):
    """The parts of IPython's shell that the magic uses."""

    user_ns: dict[str, Any]
    user_ns_hidden: dict[str, Any]


def train(
    shell: Shell, line: str, cell: str, pool: Pool | None = None, out: Callable[[str], object] = print
) -> Job | None:
    """Submit the cell with the options of the line and return the handle; print the options if asked for help.

    Bind the handle to the name after ``--to``. Raises `OptionError` for a wrong line or an empty cell.
    """
    command = click.Command(MAGIC, help=HELP, params=[*flags(Surface.MAGIC), *_OWN], add_help_option=False)
    try:
        with command.make_context(MAGIC, list(_words(line))) as context:
            chosen = context.params
            if chosen["help"]:
                out(command.get_help(context))
                return None
    except (click.UsageError, ValueError) as error:
        said = (
            error.format_message() if isinstance(error, click.UsageError) else f"{error} in {wording.given(line)}."
        )
        msg = f"{MAGIC}: {said.rstrip('.')}. `{MAGIC} --help` lists the options."
        raise OptionError(msg) from None
    name = chosen["to"]
    if name and not name.isidentifier():
        msg = f"{MAGIC}: --to is {wording.given(name)}; expected the name of a variable."
        raise OptionError(msg)
    if not cell.strip():
        msg = f"{MAGIC}: the cell is empty. Write the code of the job below the line with {MAGIC}."
        raise OptionError(msg)
    job = (pool or Pool()).submit_cell(cell, shell.user_ns, shell.user_ns_hidden, given(chosen))
    if name:
        shell.user_ns[name] = job
    return job


def send_typed(shell: Shell, cell: str, typed: Mapping[str, str], pool: Pool | None = None) -> Job:
    """Submit a cell with options typed into a form; return the handle. Raises `OptionError` for wrong ones."""
    options, problems = typed_options(typed)
    if problems:
        raise OptionError(" ".join(problems.values()))
    return (pool or Pool()).submit_cell(cell, shell.user_ns, shell.user_ns_hidden, options)


_OWN: Sequence[click.Parameter] = (
    click.Option(["--to"], metavar="VARIABLE", help="Variable that the handle of the job is bound to."),
    click.Option(["-h", "--help"], is_flag=True, help="Show this list."),
)


def _words(line: str) -> Iterator[str]:
    """Yield the words of the line; the GPU types that follow one another become one word with commas."""
    words = shlex.split(line)
    while words:
        word = words.pop(0)
        yield word
        if word == GPU_TYPES:
            end = next((at for at, following in enumerate(words) if following.startswith("-")), len(words))
            if end:
                yield ",".join(words[:end])
            del words[:end]

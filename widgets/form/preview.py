"""Work before it is sent: the parameters of a notebook as fields, and the lines of a cell that no job runs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

import msgspec

from springtide.scheduler.capture.errors import CaptureError
from springtide.scheduler.capture.parameter_cells import Cells, parameters, typed_parameters
from springtide.scheduler.capture.program import split_command
from springtide.widgets.form.arguments import REST, Parameter
from springtide.widgets.submission.magic_lines import CELL, MAGIC, lines_before, refusal_of

SENDS_ITSELF = (
    f"{{name}} has a line with {MAGIC} already. Run the cell: that sends it with the options of this line."
)


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """A notebook's parameters, the errors of typed ones by name, and why a cell cannot be sent.

    ``rest`` is true of a script, which takes further arguments.
    """

    parameters: list[Parameter] = []
    rest: bool = False
    problems: dict[str, str] = {}
    refusal: str = ""


def notebook_preview(cells: Cells, typed: Mapping[str, str]) -> Preview:
    """Return the preview of a notebook."""
    found = [Parameter(name=each.name, default=each.text, type=each.type) for each in parameters(cells)]
    return Preview(parameters=found, problems=typed_parameters(cells, typed)[1])


def script_command(script: Path, line: str) -> list[str]:
    """Return the command of a script in its directory, with arguments as they are typed behind it in a terminal.

    Raises `CaptureError` for arguments that cannot be read.
    """
    return split_command(f"python {shlex.quote(script.name)} {line}", script.parent)


def script_preview(script: Path, typed: Mapping[str, str]) -> Preview:
    """Return the preview of a script."""
    try:
        script_command(script, typed.get(REST, ""))
    except CaptureError as error:
        return Preview(rest=True, problems={REST: str(error)})
    return Preview(rest=True)


def cell_preview(text: str, number: int | None = None) -> Preview:
    """Return the preview of a cell; ``number`` is that of its last run, None for one that has not run."""
    name = CELL if number is None else f"Cell In [{number}]"
    return Preview(refusal=SENDS_ITSELF.format(name=name) if lines_before(text) else refusal_of(text, name))

"""The parameters and the kernel of a notebook that is sent as a job.

Parameters are those of papermill: a cell with the tag ``parameters`` has their defaults, and a cell with the tag
``injected-parameters`` after it the values of this job.
"""

from __future__ import annotations

import ast
import difflib
import json
import keyword
import math
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any, Final

from springtide.scheduler.arguments import HIDDEN, file_run, is_secret
from springtide.scheduler.capture import sources
from springtide.scheduler.capture.arguments import rendered
from springtide.scheduler.capture.command import (
    SOURCE_CAP,
    Captured,
    capture_command,
    capture_notebook,
    outside_notes,
    with_file,
)
from springtide.scheduler.capture.errors import CaptureError
from springtide.scheduler.capture.parameter_cells import (
    INJECTED,
    OTHER_TYPE,
    TAG,
    defaults,
    language,
    metadata,
    misfits,
    names,
    obstacle,
    tags,
)
from springtide.scheduler.capture.parameter_cells import parameters as parameters_in
from springtide.scheduler.capture.parameter_types import only_kind
from springtide.scheduler.capture.program import Here
from springtide.scheduler.capture.project import Project
from springtide.scheduler.wording import article, given, listed

HEADING: Final = "# Parameters"
FLAGS: Final = frozenset({"-p", "--parameters"})
KERNELS_S: Final = 10.0
"""Time for another Python to list its kernels, in seconds."""
MAX_SHOWN: Final = 200
"""Maximum length of a parameter or a command in a message, in characters."""
PYTHON_KERNEL: Final = "python3"
INSTALLS: Final = {
    "python": "{python} -m ipykernel install --user --name {kernel}",
    "r": "Rscript -e 'IRkernel::installspec()'",
    "julia": "julia -e 'using IJulia; installkernel(\"Julia\")'",
    "bash": "{python} -m bash_kernel.install",
}
"""Commands that install a kernel, by language."""
LIST_KERNELS: Final = """
import json
import nbclient
from jupyter_client.kernelspec import KernelSpecManager
print(json.dumps(sorted(KernelSpecManager().find_kernel_specs())))
"""


def capture_words(words: Sequence[str], here: Here) -> Captured:
    """Capture the words of a command line: a notebook with its parameters, or a command."""
    if words and names_notebook(words[0]):
        captured = capture_notebook(Path(words[0]), here)
        return with_parameters(captured, _values_of(captured, parameters_of_words(words[1:])))
    return capture_command(words, here)


def names_notebook(word: object) -> bool:
    """Return whether a word of a command, or a path, is that of a notebook."""
    return isinstance(word, (str, Path)) and str(word).endswith(".ipynb")


def parameters_of_words(words: Sequence[str]) -> dict[str, str]:
    """Return the texts of the parameters in the words after a notebook: ``-p NAME VALUE``, as for papermill.

    Raises `CaptureError` for other words.
    """
    parameters: dict[str, str] = {}
    for place in range(0, len(words), 3):
        flag, *pair = words[place : place + 3]
        if flag not in FLAGS or len(pair) != 2:
            rest = given(" ".join(words[place:]))
            msg = f"After a notebook come its parameters, each as -p NAME VALUE, and {rest} is none of these."
            raise CaptureError(msg)
        parameters[pair[0]] = pair[1]
    return parameters


def _values_of(captured: Captured, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of words for the parameters of a notebook: a number for a text is its text."""
    kinds = {each.name: only_kind(each.type) for each in parameters_in(json.loads(_content(captured))["cells"])}
    return {name: _typed(text, kinds.get(name, "")) for name, text in texts.items()}


def _typed(text: str, kind: str) -> Any:
    """Return the value of a word, as papermill reads it: a bool, None, a number, or text; all but None a text."""
    if text != "None" and kind == "str":
        return text
    if text in {"True", "False", "None"}:
        return ast.literal_eval(text)
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def with_parameters(captured: Captured, parameters: Mapping[str, Any]) -> Captured:
    """Return a captured notebook with the values of its parameters, in a cell of their own.

    Raises `CaptureError` for unknown names and for values that are no plain data.
    """
    name = _file_of(captured)
    notebook = json.loads(_content(captured))
    spoken = language(notebook)
    is_python = spoken in {"", "python"}
    if not parameters:
        return replace(captured, arguments=rendered(defaults(notebook["cells"])) if is_python else {})
    cells: list[dict[str, Any]] = [cell for cell in notebook["cells"] if INJECTED not in tags(cell)]
    if not is_python:
        msg = f"{name} is a notebook in {given(spoken)}. Parameters are for notebooks in Python."
        raise CaptureError(msg)
    if in_the_way := obstacle(notebook["cells"]):
        msg = f"Parameters cannot be set in {name}. {in_the_way}"
        raise CaptureError(msg)
    _check_names(parameters, names(cells), name)
    if wrong := misfits(notebook["cells"], parameters):
        msg = f"{' '.join(wrong)} {OTHER_TYPE}"
        raise CaptureError(msg)
    lines = [f"{key} = {_literal(value, key)}" for key, value in parameters.items()]
    cell: dict[str, Any] = {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {"tags": [INJECTED]},
        "outputs": [],
        "source": "\n".join([HEADING, *lines]),
    }
    if (notebook.get("nbformat"), notebook.get("nbformat_minor", 0)) >= (4, 5):
        cell["id"] = INJECTED
    place = next((place for place, cell in enumerate(cells, 1) if TAG in tags(cell)), 0)
    cells.insert(place, cell)
    content = json.dumps({**notebook, "cells": cells}, ensure_ascii=False, indent=1).encode()
    hidden = [
        f"{key} = {HIDDEN if is_secret(key, value) else _literal(value, key)}" for key, value in parameters.items()
    ]
    shown = {**cell, "source": "\n".join([HEADING, *hidden])}
    texts = ["".join((shown if each is cell else each)["source"]) for each in cells if each["cell_type"] == "code"]
    source = "\n\n".join(texts)
    project, cwd = captured.project, Path(captured.cwd)
    outside = [] if project is None else outside_notes(parameters.values(), project, cwd)
    return replace(
        _with_content(captured, content),
        source=source[:SOURCE_CAP],
        arguments=rendered({**defaults(cells), **parameters}),
        notes=(*captured.notes, *outside, _note(lines, has_cell=place > 0)),
    )


def _note(lines: Sequence[str], *, has_cell: bool) -> str:
    text = ", ".join(line if len(line) <= MAX_SHOWN else f"{line[:MAX_SHOWN]}…" for line in lines)
    if has_cell:
        return f"Parameters: {text}."
    return f"Parameters: {text}. They are set at the top of the notebook, since no cell has the tag “{TAG}”."


def _file_of(captured: Captured) -> str:
    return file_run(captured.argv)


def _content(captured: Captured) -> bytes:
    name, project = _file_of(captured), captured.project
    if project is None:
        return captured.files[name]
    copied = project.files.get(_place(captured, project))
    return sources.read(Path(captured.cwd, name)) if copied is None else copied.content


def _with_content(captured: Captured, content: bytes) -> Captured:
    """Return a captured notebook with another content."""
    project = captured.project
    if project is None:
        return replace(captured, files={**captured.files, _file_of(captured): content})
    return replace(captured, project=with_file(project, _place(captured, project), content))


def _place(captured: Captured, project: Project) -> str:
    """Return the place of a captured notebook in its project."""
    return str(project.place_of(Path(captured.cwd, _file_of(captured))))


def _check_names(parameters: Mapping[str, Any], known: Sequence[str], notebook: str) -> None:
    for name in parameters:
        if not name.isidentifier() or keyword.iskeyword(name):
            msg = f"{given(name)} is no name of a parameter of {notebook}; expected the name of a variable."
            raise CaptureError(msg)
        if known and name not in known:
            near = difflib.get_close_matches(name, known, 1)
            meant = f" Did you mean {near[0]}?" if near else ""
            names = listed(known, len(known))
            msg = f"{given(name)} is no parameter of {notebook}.{meant} Its parameters are {names}."
            raise CaptureError(msg)


def _literal(value: Any, name: str) -> str:
    """Return the Python text of plain data. Raises `CaptureError` for anything else."""
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        value = value.item()
    if isinstance(value, Path):
        value = str(value)
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, float) and not math.isfinite(value):
        value = float(value)
        return f"float({str(value)!r})"
    if value is None or isinstance(value, bool):
        return repr(value)
    for plain in (int, float, str):  # of a subclass the repr may be anything
        if isinstance(value, plain):
            return plain.__repr__(value)
    if isinstance(value, (list, tuple)):
        items = ", ".join(_literal(item, name) for item in value)
        return f"[{items}]"
    if isinstance(value, Mapping):
        pairs = (f"{_literal(key, name)}: {_literal(item, name)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    msg = (
        f"Parameter `{name}` is {article(type(value).__name__)}, {given(value)}. Parameters of a notebook are "
        "text, numbers, bools, None, and lists and dictionaries of these: save other values to a file and give "
        "its path."
    )
    raise CaptureError(msg)


def check_kernel(captured: Captured, image: str | None) -> None:
    """Raise `CaptureError` if the Python that runs a captured notebook does not have its kernel.

    Nothing is known of the kernels in a container ``image``.
    """
    if captured.kind != "notebook" or image is not None:
        return
    name, python = _file_of(captured), captured.program or captured.argv[0]
    notebook = json.loads(_content(captured))
    kernel = str(metadata(notebook, "kernelspec").get("name") or PYTHON_KERNEL)
    try:
        kernels = _kernels(python)
    except subprocess.CalledProcessError:
        msg = (
            f"{name} is run by {python}, which cannot run notebooks: it lacks nbclient or ipykernel. Install "
            f"them: {python} -m pip install nbclient ipykernel"
        )
        raise CaptureError(msg) from None
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return  # the job reports the mistake
    if kernel not in kernels:
        install = INSTALLS.get(language(notebook) or "python", "").format(python=python, kernel=kernel)
        there = f"Its kernels are {listed(kernels)}." if kernels else "It has no kernels."
        how = f"Install it with {given(install, MAX_SHOWN)}, or choose" if install else "Install it, or choose"
        msg = (
            f"{name} needs the kernel {given(kernel)}, which {python} does not have. {there} {how} another kernel "
            "in JupyterLab and save the notebook."
        )
        raise CaptureError(msg)


def _kernels(python: str) -> list[str]:
    command = [python, "-c", LIST_KERNELS]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=KERNELS_S, check=True)
    kernels: list[str] = json.loads(answer.stdout)
    return kernels

"""The execution of a notebook cell by cell, saving the notebook after each cell."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Optional, Sequence, TextIO, Tuple

from springtide.training.files import FULL, warn, write_atomically
from springtide.training.job import AGAIN, DONE, Job
from springtide.training.values import as_code

QUIET_KERNEL = ("--log-level=ERROR",)
"""Arguments of IPython's kernel: its warning about connections that others could read is not for the job's log."""
TAG = "parameters"
"""Tag of the cell with the parameters of a notebook and their defaults."""
INJECTED = "injected-parameters"
"""Tag of the cell in which other values are set."""
HEADING = "# Parameters"
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True)
class NotebookError:
    """The error that a cell raised."""

    kind: str
    message: str
    text: str


@dataclass(frozen=True)
class Ended:
    """The end of a notebook: ``returned`` after its last cell, ended by a cell, failed, or paused."""

    returned: bool = False
    paused: bool = False
    error: Optional[NotebookError] = None


class _Paused(Exception):  # noqa: N818 - control flow, not an error
    """A pause was requested between two cells."""


def execute(job: Job, source: Path, kept: Path, parameters: Sequence[Tuple[str, str]] = ()) -> Ended:
    """Run the notebook ``source`` here, writing it with its outputs to ``kept`` after every cell.

    ``parameters`` are names and values, as in Python, that are set in place of those in the notebook. The output
    of cells is printed. The kernel has the job's environment, and finds modules beside the notebook. Raises
    whatever keeps the notebook from being run or written.
    """
    # Not in the main thread: there nbclient would end the kernel on SIGTERM, which here only requests a pause.
    with ThreadPoolExecutor(1, "notebook") as thread:
        return thread.submit(_execute, job, source, kept, parameters).result()


def _execute(job: Job, source: Path, kept: Path, parameters: Sequence[Tuple[str, str]]) -> Ended:
    try:
        nbformat: Any = import_module("nbformat")
        import_module("nbclient")
    except ImportError as error:
        return _error("ImportError", f"A notebook job needs nbclient and ipykernel ({error}).")
    try:
        notebook = nbformat.read(str(source), as_version=4)
    except Exception as error:  # noqa: BLE001 - nbformat raises many types
        return _error(type(error).__name__, f"{source.name} is not a notebook: {error}")
    if parameters:
        _set_parameters(notebook, parameters)
    client = _client(job, notebook, kept, str(source.resolve().parent))
    ended = _ended(job, client)
    if ended.paused:
        client.keep()
    else:
        job.write_outcome(kept, client.text)
    return ended


def _ended(job: Job, client: Any) -> Ended:
    """Run the notebook of a client and return how it ended."""
    from jupyter_client.kernelspec import NoSuchKernel  # noqa: PLC0415 - needed for notebooks only
    from nbclient.exceptions import CellExecutionError, DeadKernelError  # noqa: PLC0415

    try:
        asyncio.run(client.async_execute())
    except _Paused:
        return Ended(paused=True)
    except CellExecutionError as error:
        if error.ename == "SystemExit":
            if error.evalue in ("", "0", "None"):
                return _exited(job, client)
            if error.evalue == str(AGAIN):
                return Ended(paused=True)
        return Ended(error=NotebookError(error.ename, error.evalue, _ANSI.sub("", error.traceback)))
    except DeadKernelError:
        message = f"The kernel ended unexpectedly in {client.running}, perhaps for want of memory."
        return _error("DeadKernelError", message, "nbclient.exceptions.")
    except NoSuchKernel as error:
        return _error("NoSuchKernel", f"The notebook wants the kernel {error.name!r}, which is not here.")
    return Ended(returned=True)


def _set_parameters(notebook: Any, parameters: Sequence[Tuple[str, str]]) -> None:
    """Set parameters in the cell of those that were set at the submission, else in a cell after their defaults."""
    nbformat: Any = import_module("nbformat")
    lines = "\n".join(f"{name} = {as_code(value)}" for name, value in parameters)
    tags = [cell.metadata.get("tags", ()) for cell in notebook.cells]
    place = next((place for place, each in enumerate(tags) if INJECTED in each), None)
    if place is not None:
        notebook.cells[place].source += f"\n{lines}"
        return
    after = next((place for place, each in enumerate(tags, 1) if TAG in each), 0)
    cell = nbformat.v4.new_code_cell(f"{HEADING}\n{lines}", metadata={"tags": [INJECTED]})
    if (notebook.nbformat, notebook.nbformat_minor) < (4, 5):
        del cell["id"]
    notebook.cells.insert(after, cell)


def _exited(job: Job, client: Any) -> Ended:
    """Return the end of a notebook by ``sys.exit(0)``: an error if that kept cells from running.

    A pause that was asked for, and work that was called complete, are ends.
    """
    left = client.left
    if not left or job.pause_asked() or _is_done(job.attempt):
        return Ended()
    cells = "1 cell" if left == 1 else f"{left} cells"
    message = f"The notebook ended with sys.exit(0) in {client.running}, and {cells} after it did not run."
    return _error("NotebookError", message, "springtide.training.notebook.")


def _is_done(attempt: int) -> bool:
    """Return whether a cell of this attempt has called `Job.done`."""
    try:
        with Path(os.environ.get("SPRINGTIDE_REPORT", os.devnull)).open("rb") as file:
            marked = [json.loads(line) for line in file if b'"milestone"' in line]
    except (OSError, ValueError):
        return False
    return any(each.get("milestone") == DONE and each.get("attempt") == attempt for each in marked)


def _error(kind: str, message: str, module: str = "") -> Ended:
    """Return an error in words; with its ``module`` the log shows it as Python would."""
    return Ended(error=NotebookError(kind, message, f"{module}{kind}: {message}" if module else message))


class _Progress:
    """Reports the number of completed cells, until the notebook's own code reports progress."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._path = os.environ.get("SPRINGTIDE_REPORT", os.devnull)
        self._size = self._now()

    def done(self, cells: int, of: int) -> None:
        """Report the number of completed cells."""
        if self._now() == self._size:
            self._job.report(step=cells, of=of)
            self._size = self._now()

    def _now(self) -> int:
        try:
            return Path(self._path).stat().st_size
        except OSError:
            return 0


def _client(job: Job, notebook: Any, kept: Path, modules: str) -> Any:
    nbformat: Any = import_module("nbformat")
    from nbclient import NotebookClient  # noqa: PLC0415 - needed for notebooks only

    progress = _Progress(job)

    class Client(NotebookClient):
        """Prints the output of cells, saves the notebook and reports the progress."""

        index = 0
        lacks_room = False

        @property
        def running(self) -> str:
            """The cell that runs, as tracebacks call it."""
            return f"cell In [{self.code_cells_executed}]"

        @property
        def left(self) -> int:
            """Number of cells with code after the one that runs."""
            after = self.nb.cells[self.index + 1 :]
            return sum(1 for cell in after if cell.cell_type == "code" and cell.source.strip())

        @property
        def text(self) -> bytes:
            """The notebook in its current state, as its file has it."""
            return bytes(nbformat.writes(self.nb).encode())

        def keep(self) -> None:
            """Write the notebook in its current state; on a full disk the next cell's end writes it."""
            try:
                write_atomically(kept, self.text)
            except OSError as error:
                if error.errno not in FULL:
                    raise
                if not self.lacks_room:
                    self.lacks_room = True
                    warn(f"There is no room for {kept.name} with the outputs so far. The notebook continues.")
            else:
                self.lacks_room = False

        async def async_start_new_kernel(self, **options: Any) -> None:
            spec = None if self.km is None else self.km.kernel_spec
            if spec is not None and any("ipykernel" in word for word in spec.argv):
                self.extra_arguments = [*self.extra_arguments, *QUIET_KERNEL]
            await super().async_start_new_kernel(**options)

        def output(self, outs: Any, msg: Any, display_id: Any, cell_index: int) -> Any:
            content = msg["content"]
            if msg["msg_type"] == "stream":
                _print(content["text"], sys.stderr if content["name"] == "stderr" else sys.stdout)
            elif msg["msg_type"] == "execute_result":
                _print(content["data"].get("text/plain", "") + "\n", sys.stdout)
            return super().output(outs, msg, display_id, cell_index)

        async def async_execute_cell(
            self,
            cell: Any,
            cell_index: int,
            execution_count: Optional[int] = None,
            store_history: bool = True,
        ) -> Any:
            if job.pause_asked():
                raise _Paused
            self.index = cell_index
            done = await super().async_execute_cell(cell, cell_index, execution_count, store_history)
            self.keep()
            progress.done(cell_index + 1, len(self.nb.cells))
            return done

    paths = [modules, os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    kernel = notebook.metadata.get("kernelspec", {}).get("name", "python3")
    resources = {"metadata": {"path": str(Path.cwd())}}
    return Client(notebook, timeout=None, kernel_name=kernel, resources=resources, allow_errors=False)


def _print(text: str, stream: TextIO) -> None:
    stream.write(text)
    stream.flush()

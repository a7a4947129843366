"""The notebook's interface to the pool: ``from springtide.widgets import pool``.

Imports are lazy: each name is loaded at its first use. In IPython the package brings the magic ``%%train``;
``%load_ext springtide.widgets`` does the same.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from springtide.widgets.connection import PoolError, UnreachableError
    from springtide.widgets.errors import (
        CaptureError,
        DownloadError,
        JobCancelledError,
        JobFailedError,
        MissingPackageError,
        NoResultError,
        NotFinishedError,
        NotOnHubError,
        OptionError,
        SpringtideError,
        UntrustedResultError,
    )
    from springtide.widgets.job import Job
    from springtide.widgets.shared_pool import Pool
    from springtide.widgets.submission.spaces import loguniform, uniform
    from springtide.widgets.sweep import Sweep

    pool: Pool

__all__ = [
    "CaptureError",
    "DownloadError",
    "Job",
    "JobCancelledError",
    "JobFailedError",
    "MissingPackageError",
    "NoResultError",
    "NotFinishedError",
    "NotOnHubError",
    "OptionError",
    "Pool",
    "PoolError",
    "SpringtideError",
    "Sweep",
    "UnreachableError",
    "UntrustedResultError",
    "loguniform",
    "pool",
    "uniform",
]

_HOMES = {
    "Job": "job",
    "Pool": "shared_pool",
    "PoolError": "connection",
    "Sweep": "sweep",
    "UnreachableError": "connection",
    "loguniform": "submission.spaces",
    "uniform": "submission.spaces",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value: Any
    if name == "pool":
        value = import_module(f"{__name__}.shared_pool").Pool()
    else:
        value = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: Any) -> None:
    """Bring ``%%train`` into an IPython shell, and a plain answer of ``%pip`` where it cannot install."""

    def train(line: str, cell: str) -> Any:
        """Run the cell in the shared pool: ``%%train --gpus 4 --to job``.

        The cell runs in a process of its own with the variables it reads from the notebook, as they are now. The
        value of its last line is the job's result; nothing else comes back. The handle is the cell's output, and
        is bound to the name after ``--to``. ``%%train --help`` lists all options.
        """
        return import_module(f"{__name__}.magics").train(shell, line, cell)

    shell.register_magic_function(train, "cell", "train")
    import_module(f"{__name__}.own_packages").guard_pip(shell)
    shell.input_transformers_cleanup.append(_with_body)


def _with_body(lines: list[str]) -> list[str]:
    """Add an empty line to a cell with only the magic's line, which IPython would refuse."""
    is_alone = len(lines) == 1 and lines[0].split()[:1] == ["%%train"]
    return [lines[0].rstrip("\n") + "\n", "\n"] if is_alone else lines


def _running_shell() -> Any:
    find = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return None if find is None else find()


if (_shell := _running_shell()) is not None:
    load_ipython_extension(_shell)

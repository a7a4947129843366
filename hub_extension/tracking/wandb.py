"""Offline runs of W&B in a folder, for ``wandb sync``: one for each job that has ended.

W&B cannot add to an offline run. Each is written elsewhere in the folder, and moved to the others once complete.
A file in it records its last report, so that no job is written twice.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from glob import escape
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import msgspec
import wandb

from springtide.hub_extension.tracking.tracker import NotTakenError, about, parameters
from springtide.scheduler.capture.ignore import IGNORE_FILE
from springtide.scheduler.model import JobState
from springtide.scheduler.scratch import ScratchFolder
from springtide.scheduler.tracking_names import metric_name
from springtide.scheduler.wire import Job, Point

POSITION: Final = "springtide.json"
"""The file with the last report of a complete run."""
IGNORED: Final = "# Exported runs are no part of the project that their folder lies in.\n*\n"
"""Content of the ignore file beside the runs."""
MAX_TAG: Final = 64
"""Maximum length of a tag of W&B, in characters."""
MAX_PROJECT: Final = 128
"""Maximum length of the name of a project of W&B, in characters."""
FINAL: Final = frozenset(state for state in JobState if state.final)
_NO_PROJECT = re.compile(r"[/\\#?%:]")
_OWN_NAMES: Final = frozenset({"_step", "_runtime", "_timestamp", "_wandb"})
"""Names of values that W&B keeps for itself."""


class WandbRun:
    """The run of a job; see `Run`."""

    def __init__(self, run: wandb.Run | None, position: int, place: Path) -> None:
        self.position = position
        self._run = run
        self._place = place

    async def write(self, points: Sequence[Point]) -> None:
        """See `Run.write`."""
        assert self._run is not None
        with _refused():
            for point in filter(attrgetter("has_numbers"), points):
                self._run.log(_row(point))
        self.position = points[-1].seq

    async def settle(self, job: Job) -> None:
        """See `Run.settle`."""
        if self._run is None:
            return
        written = Path(self._run.settings.sync_dir)
        with _refused():
            self._run.finish(exit_code=0 if job.state == JobState.SUCCEEDED else 1)
        self._run = None
        (written / POSITION).write_bytes(msgspec.json.encode({"position": self.position}))
        self._place.mkdir(exist_ok=True)
        ignores = self._place / IGNORE_FILE
        if not ignores.exists():
            ignores.write_text(IGNORED, encoding="utf-8")
        shutil.move(written, self._place / written.name)


class WandbFolder:
    """The folder; see `Tracker`."""

    name = "W&B"

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._place = folder / "wandb"
        self._making = ScratchFolder(folder, ".springtide-")

    async def open(self, job: Job) -> WandbRun:
        """See `Tracker.open`. Raises `NotTakenError` for a job that has not ended."""
        for file in self._place.glob(f"offline-run-*-{escape(job.id)}/{POSITION}"):
            return WandbRun(None, int(msgspec.json.decode(file.read_bytes())["position"]), self._place)
        if job.state not in FINAL:
            raise NotTakenError("it has not ended, and W&B cannot add to an offline run")
        with _refused():
            return WandbRun(self._new(job), 0, self._place)

    async def address(self, job: Job) -> str | None:  # noqa: ARG002 - see `Tracker.address`
        """Return None: a run in a folder has no page."""
        return None

    async def close(self) -> None:
        """See `Tracker.close`."""
        wandb.teardown()
        self._making.remove()

    def _new(self, job: Job) -> wandb.Run:
        run = wandb.init(
            project=_NO_PROJECT.sub("-", job.project)[:MAX_PROJECT],
            id=job.id,
            name=job.name,
            dir=self._making.path,
            group=job.sweep,
            job_type=job.kind,
            notes=job.note or None,
            tags=sorted({tag[:MAX_TAG] for tag in job.options.tags}),
            config={**parameters(job), "springtide": {**about(job), "started": job.started, "ended": job.ended}},
            settings=_settings(),
        )
        run.define_metric("*", step_metric="step")
        return run


@contextmanager
def _refused() -> Iterator[None]:
    """Raise `NotTakenError` if W&B fails."""
    try:
        yield
    except wandb.Error as error:
        raise NotTakenError(str(error)) from error


def _settings() -> wandb.Settings:
    """Return settings with which a run has nothing of the machine that exports it."""
    return wandb.Settings(
        mode="offline",
        console="off",
        disable_git=True,
        disable_code=True,
        save_code=False,
        silent=True,
        host="",
        x_disable_stats=True,
        x_disable_meta=True,
        x_disable_machine_info=True,
        x_save_requirements=False,
    )


def _row(point: Point) -> dict[str, Any]:
    """Return the values of a report as W&B logs them; a resumed job may report a step again."""
    values = {_name(name): float(value) for name, value in point.values.items()}
    step = {} if point.step is None else {"step": point.step}
    return {**step, **values, "_timestamp": point.at}


def _name(name: str) -> str:
    cleaned = metric_name(name)
    return f"reported{cleaned}" if cleaned in _OWN_NAMES else cleaned

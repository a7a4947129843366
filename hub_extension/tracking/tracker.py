"""The interface of trackers, and their settings."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import httpx

from springtide.scheduler.arguments import Value
from springtide.scheduler.settings import SettingError, setting
from springtide.scheduler.tracking_names import metric_name
from springtide.scheduler.wire import Job, Point
from springtide.scheduler.wording import given


@dataclass(frozen=True, slots=True)
class MlflowSettings:
    """An MLflow server. `uri`, `page` and `credentials` raise `SettingError` for settings that cannot be used."""

    mlflow_tracking_uri: str = setting(
        "",
        "The MLflow server that reports of jobs are forwarded to, such as http://mlflow.example.org:5000. "
        "Empty: none.",
    )
    mlflow_url: str = setting(
        "", "The address at which browsers open the MLflow server, if it is not mlflow_tracking_uri."
    )
    mlflow_credentials_file: str = setting(
        "", "The file with the credentials for the MLflow server: user:password, or a token. Empty: none."
    )

    @property
    def uri(self) -> str:
        """The address for the service, without a slash at the end."""
        return _address("mlflow_tracking_uri", self.mlflow_tracking_uri)

    @property
    def page(self) -> str:
        """The address for browsers, without a slash at the end."""
        return _address("mlflow_url", self.mlflow_url) if self.mlflow_url else self.uri

    @property
    def credentials(self) -> str:
        """``user:password``, or a token, or empty."""
        if not self.mlflow_credentials_file:
            return ""
        try:
            return Path(self.mlflow_credentials_file).expanduser().read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text"
            file = given(self.mlflow_credentials_file)
            raise SettingError(f"Springtide.mlflow_credentials_file: {file} cannot be read: {why}.") from None


@dataclass(frozen=True, slots=True)
class TensorboardSettings:
    """A TensorBoard. `directory` and `page` raise `SettingError` for settings that cannot be used."""

    tensorboard_dir: str = setting(
        "",
        "The log directory of a TensorBoard, to which event files of the reports of jobs are written; needs "
        "the extra tracking. Empty: none.",
    )
    tensorboard_url: str = setting(
        "", "The address at which browsers open that TensorBoard. Empty: pages have no link to it."
    )

    @property
    def directory(self) -> Path:
        """The log directory."""
        if find_spec("tensorboardX") is None:
            needs = "Springtide.tensorboard_dir needs tensorboardX, which is not installed"
            raise SettingError(f"{needs}: pip install 'springtide[hub,tracking]'.")
        directory = Path(self.tensorboard_dir).expanduser().absolute()
        if not directory.is_dir() or not os.access(directory, os.W_OK | os.X_OK):
            shown = given(str(directory))
            problem = f"Springtide.tensorboard_dir: {shown} is no directory that the service may write to"
            raise SettingError(f"{problem}. Create it, and give it to the account of the service.")
        return directory

    @property
    def page(self) -> str:
        """The address for browsers, empty if there is none."""
        return _address("tensorboard_url", self.tensorboard_url) if self.tensorboard_url else ""


@dataclass(frozen=True, slots=True)
class TrackingSettings:
    """The trackers that reports are forwarded to."""

    mlflow: MlflowSettings = MlflowSettings()
    tensorboard: TensorboardSettings = TensorboardSettings()

    def check(self) -> None:
        """Raise `SettingError` for a tracker that cannot be used."""
        if self.mlflow.mlflow_tracking_uri:
            _ = self.mlflow.page, self.mlflow.uri, self.mlflow.credentials
        if self.tensorboard.tensorboard_dir:
            _ = self.tensorboard.directory, self.tensorboard.page


def server_address(text: str) -> httpx.URL | None:
    """Return the address of a server; None for any other text."""
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        return None
    if url.scheme not in {"http", "https"} or not url.host or url.query or url.fragment:
        return None
    return url


def _address(setting: str, text: str) -> str:
    """Return an address without a slash at the end. Raises `SettingError` for any other text.

    The message does not repeat it: it may hold a password.
    """
    url = server_address(text)
    if url is None:
        raise SettingError(f"Springtide.{setting} is no address of a server, such as https://example.org:5000.")
    if url.userinfo:
        raise SettingError(
            f"Springtide.{setting} has a user or password in it, which browsers would show. Put them into "
            "mlflow_credentials_file."
        )
    return str(url).rstrip("/")


class TrackerDownError(Exception):
    """The tracker takes nothing at present; the message says why. Another attempt may succeed later."""


class NotTakenError(Exception):
    """The tracker refuses the reports of one job; the message says why. Another attempt is of no use."""


class Run(Protocol):
    """The record of one job in a tracker, over all its attempts."""

    @property
    def position(self) -> int:
        """Return the ``seq`` of the last report that the tracker has; 0 if it has none."""

    async def write(self, points: Sequence[Point]) -> None:
        """Add reports, which follow ``position`` in order. Raises `TrackerDownError` or `NotTakenError`."""

    async def settle(self, job: Job) -> None:
        """Record the state of the job, after all its reports. Raises as `write`."""


class Tracker(Protocol):
    """A store of jobs' reports. ``name`` is its name for people."""

    name: str

    async def open(self, job: Job) -> Run:
        """Return the record of a job, made unless it exists. Raises `TrackerDownError` or `NotTakenError`."""

    async def address(self, job: Job) -> str | None:
        """Return the address at which a browser shows the job; None if there is none. Raises as `open`."""

    async def close(self) -> None:
        """Release connections."""


async def record(run: Run, job: Job, reports: Callable[[int], Awaitable[Sequence[Point]]]) -> int:
    """Add the reports that a run lacks, and the state of the job; return the number of reports with numbers.

    ``reports`` returns those after a position, empty if there are none. Raises as `Run.write`.
    """
    written = 0
    while points := await reports(run.position):
        await run.write(points)
        written += sum(point.has_numbers for point in points)
    await run.settle(job)
    return written


def about(job: Job) -> dict[str, object]:
    """Return the facts about a job that trackers keep with its reports, by name; without empty ones."""
    facts: dict[str, object] = {
        "name": job.name,
        "project": job.project,
        "user": job.user,
        "kind": job.kind,
        "state": job.state,
        "workers": job.options.workers,
        "gpus": job.options.gpus,
        "min_workers": job.options.min_workers,
        "priority": job.options.priority,
        "gpu_type": job.gpu_type,
        "image": job.options.image,
        "sweep": job.sweep,
        "trial": job.trial,
        "attempts": job.attempt,
        "tags": ", ".join(job.options.tags),
        "note": job.note,
    }
    return {name: value for name, value in facts.items() if value not in {None, ""}}


def parameters(job: Job) -> dict[str, Value]:
    """Return the arguments of a job by the names of trackers, without those that are hidden."""
    return {metric_name(name): each.value for name, each in job.arguments.items() if not each.hidden}

"""Settings of trackers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class MlflowSettings:
    """An MLflow server: ``uri`` for the service, ``page`` for browsers, neither with a slash at the end.

    ``credentials`` are ``user:password``, or a token, or empty.
    """

    uri: str
    page: str
    credentials: str = ""


@dataclass(frozen=True, slots=True)
class TensorboardSettings:
    """The log directory of a TensorBoard, and its address for browsers, empty if there is none."""

    directory: Path
    page: str = ""


@dataclass(frozen=True, slots=True)
class TrackingSettings:
    """The trackers that reports are forwarded to."""

    mlflow: MlflowSettings | None = None
    tensorboard: TensorboardSettings | None = None

"""The trackers of the settings. Their modules are imported only if they are set."""

from __future__ import annotations

from springtide.hub_extension.tracking.tracker import Tracker, TrackingSettings


def open_trackers(settings: TrackingSettings) -> tuple[Tracker, ...]:
    """Return the trackers. Raises `ModuleNotFoundError` if one needs a package that is not installed."""
    found: list[Tracker] = []
    if settings.mlflow.mlflow_tracking_uri:
        from springtide.hub_extension.tracking.mlflow import Mlflow  # noqa: PLC0415 - only if it is set

        found.append(Mlflow(settings.mlflow.uri, settings.mlflow.page, settings.mlflow.credentials))
    if settings.tensorboard.tensorboard_dir:
        from springtide.hub_extension.tracking.tensorboard import Tensorboard  # noqa: PLC0415 - its extra

        found.append(Tensorboard(settings.tensorboard))
    return tuple(found)

"""Settings of the service for trackers that reports are forwarded to: MLflow and TensorBoard."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import httpx
from traitlets import HasTraits, Unicode

from springtide.hub_extension.service.runtime import BAD_INPUT, StartError
from springtide.hub_extension.tracking.tracker import MlflowSettings, TensorboardSettings, TrackingSettings
from springtide.scheduler.wording import given


class TrackingTraits(HasTraits):
    """The settings, as a part of those of the service."""

    mlflow_tracking_uri = Unicode(
        help="The MLflow server that what jobs report is forwarded to, such as http://mlflow.example.org:5000. "
        "Empty: none."
    ).tag(config=True)
    mlflow_url = Unicode(
        help="The address at which browsers open the MLflow server, if it is another than mlflow_tracking_uri."
    ).tag(config=True)
    mlflow_credentials_file = Unicode(
        help="The file with what the MLflow server asks for: user:password, or a token. Empty: for nothing."
    ).tag(config=True)
    tensorboard_dir = Unicode(
        help="The log directory of a TensorBoard, to which event files of what jobs report are written; needs the "
        "extra tracking. Empty: none."
    ).tag(config=True)
    tensorboard_url = Unicode(
        help="The address at which browsers open that TensorBoard. Empty: pages have no link to it."
    ).tag(config=True)

    def tracking_settings(self) -> TrackingSettings:
        """Return the trackers that the settings describe. Raises `StartError` for one that cannot be used."""
        return TrackingSettings(
            self._mlflow() if self.mlflow_tracking_uri else None,
            self._tensorboard() if self.tensorboard_dir else None,
        )

    def _mlflow(self) -> MlflowSettings:
        uri = _address("mlflow_tracking_uri", self.mlflow_tracking_uri)
        page = _address("mlflow_url", self.mlflow_url) if self.mlflow_url else uri
        return MlflowSettings(uri, page, self._credentials())

    def _credentials(self) -> str:
        if not self.mlflow_credentials_file:
            return ""
        try:
            return Path(self.mlflow_credentials_file).expanduser().read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text"
            file = given(self.mlflow_credentials_file)
            told = f"Springtide.mlflow_credentials_file: {file} cannot be read: {why}."
            raise StartError(told, BAD_INPUT) from None

    def _tensorboard(self) -> TensorboardSettings:
        if find_spec("tensorboardX") is None:
            needs = "Springtide.tensorboard_dir needs tensorboardX, which is not installed"
            raise StartError(f"{needs}: pip install 'springtide[hub,tracking]'.", BAD_INPUT)
        directory = Path(self.tensorboard_dir).expanduser().absolute()
        if not directory.is_dir() or not os.access(directory, os.W_OK | os.X_OK):
            shown = given(str(directory))
            told = f"Springtide.tensorboard_dir: {shown} is no directory that the service may write to"
            raise StartError(f"{told}. Create it, and give it to the account of the service.", BAD_INPUT)
        page = _address("tensorboard_url", self.tensorboard_url) if self.tensorboard_url else ""
        return TensorboardSettings(directory, page)


def _address(setting: str, text: str) -> str:
    """Return an address without a slash at the end. Raises `StartError` for any other text.

    The message does not repeat it: it may hold a password.
    """
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in {"http", "https"} or not url.host or url.query or url.fragment:
        raise StartError(
            f"Springtide.{setting} is no address of a server, such as https://example.org:5000.", BAD_INPUT
        )
    if url.userinfo:
        told = f"Springtide.{setting} has a user or password in it"
        raise StartError(f"{told}, which browsers would show. Put them into mlflow_credentials_file.", BAD_INPUT)
    return str(url).rstrip("/")

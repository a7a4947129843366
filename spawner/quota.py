"""Enforcement of the fixed build quota in any spawner."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from functools import cache
from inspect import isawaitable
from pathlib import Path
from types import MethodType
from typing import Any

import msgspec
from jupyterhub.spawner import Spawner
from tornado.web import HTTPError
from traitlets import Bool, Float, Integer, List, Unicode, default
from traitlets.log import get_logger

from springtide.scheduler.client import Client, PoolError, Unreachable
from springtide.scheduler.datasets import Dataset, variable
from springtide.scheduler.executors import notebooks
from springtide.scheduler.wire import Workspace
from springtide.scheduler.wording import count
from springtide.spawner.options import (
    OPTIONS,
    OptionError,
    form_html,
    options_from_form,
    requested_gpus,
    requested_type,
)
from springtide.spawner.reservations import Notebook, Reservations, Superseded

FORM_WAITS_S = 3.0
FORM_TRAITS = tuple({"options_form", "options_from_form", "apply_user_options"} & set(Spawner.class_trait_names()))
"""Settings by which a hub has a form of its own, those of this version of JupyterHub."""
ASKING = "Reserving GPUs for your notebook."
AWAY = "Waiting for the Springtide service, which hands out the GPUs: it is restarting."


def refusal(message: str, *, status: int, reason: str) -> HTTPError:
    """Return an error for a spawner to raise, with the ``message`` that the page and the REST API show."""
    try:
        from jupyterhub.spawner import SpawnException  # noqa: PLC0415 - JupyterHub 6
    except ImportError:
        error = HTTPError(status, message)
    else:
        error = SpawnException(message, reason=reason, status_code=status)
    error.jupyterhub_message = message  # type: ignore[attr-defined] # JupyterHub looks for it
    return error


@cache
def reservations(url: str, token: str, token_file: str) -> Reservations:
    """Return the reservations of this hub at the service at ``url``; without a ``token``, the file's is used."""
    return Reservations(Client(url, token or Path(token_file).read_text().strip(), timeout=10), get_logger())


class BuildQuota(Spawner):
    """Mixin for spawners, before the spawner class: notebooks get GPUs from a fixed quota, or do not start.

    GPUs are reserved before the server starts and released when it has stopped, whatever the cause. A notebook and
    its reservation outlive the hub.
    """

    service_url = Unicode(help="Address of the Springtide service for the hub; set by `configure`.").tag(
        config=True
    )
    token_file = Unicode(help="The file with the service's own token; set by `configure`.").tag(config=True)
    token = Unicode(help="The service's own token if it is in no file; set by `configure`.").tag(config=True)
    state_dir = Unicode(
        help="The state directory of a pool on this machine, by which it finds its notebook servers among all "
        "processes; empty if the pool is elsewhere. Set by `configure`."
    ).tag(config=True)
    default_gpus = Integer(1, min=0, help="GPUs of a notebook whose options name no number.").tag(config=True)
    other_options = List(
        Unicode(),
        help="Options besides ``gpus`` and ``gpu_type`` that your own hooks handle; all others are refused. If "
        "this is empty, a hub with a form of its own (``options_form``, ``options_from_form`` or "
        "``apply_user_options``) has any.",
    ).tag(config=True)
    datasets = Bool(True, help="Whether workspaces see the datasets that their owner may use.").tag(config=True)
    patience = Float(
        45, min=0, help="Seconds to wait for a service that is away before the start is given up."
    ).tag(config=True)

    _workspace: Workspace | None = None
    _start_id = ""
    _news = ASKING
    _news_changed: asyncio.Event | None = None
    _reserving = False
    _confirmed = True

    @property
    def _notebook(self) -> Notebook:
        return (self.user.name, self.name)

    @property
    def _datasets(self) -> list[Dataset]:
        return self._workspace.datasets if self._workspace is not None and self.datasets else []

    @property
    def _reservations(self) -> Reservations:
        return reservations(self.service_url, self.token, self.token_file)

    # ---------- options

    async def run_options_from_form(self, form_data: dict[str, list[str]]) -> dict[str, object]:
        """Return the options of a submitted form: the GPUs, and what the hub's own form makes of the rest."""
        return await self._with_gpus(form_data, super().run_options_from_form)

    async def options_from_query(self, query_data: dict[str, list[str]]) -> dict[str, object]:
        """Return the options in the address of a start: as those of a form."""
        return await self._with_gpus(query_data, super().options_from_query)

    async def _with_gpus(self, fields: dict[str, list[str]], hubs: Callable[[Any], Any]) -> dict[str, object]:
        others = hubs({name: values for name, values in fields.items() if name not in OPTIONS})
        return {**(await others if isawaitable(others) else others), **options_from_form(fields)}

    @default("apply_user_options")
    def _default_apply_user_options(self) -> Any:
        return lambda spawner, _options: (spawner.requested_gpus(), spawner.requested_type())

    @property
    def _other_names(self) -> Collection[str] | None:
        """Names of options that are handled elsewhere; None if the hub's own form may have any."""
        return None if not self.other_options and self._has_own_form() else self.other_options

    def _has_own_form(self) -> bool:
        """Return whether the hub's configuration or its spawner class has a form, or functions for its fields."""
        sections = [self.config.get(section, {}) for section in self.section_names()]
        return any(
            any(name in section for section in sections) or getattr(type(self), name) is not getattr(Spawner, name)
            for name in FORM_TRAITS
        )

    def requested_gpus(self) -> int:
        """Return the number of GPUs in the options. Raises the result of `refusal` if they are invalid."""
        try:
            return requested_gpus(self.user_options, default=self.default_gpus, others=self._other_names)
        except OptionError as error:
            raise refusal(str(error), status=400, reason="options") from None

    def requested_type(self) -> str:
        """Return the GPU type in the options. Raises the result of `refusal` if it is invalid."""
        try:
            return requested_type(self.user_options)
        except OptionError as error:
            raise refusal(str(error), status=400, reason="options") from None

    async def get_options_form(self) -> str:
        """Return the HTML of the form for GPUs, followed by the hub's own form."""
        try:
            async with asyncio.timeout(FORM_WAITS_S):
                quota = await self._reservations.quota(self.user.name)
        except (PoolError, Unreachable, TimeoutError) as error:
            self.log.warning("No build quota for the form of %s: %r", self.user.name, error)
            quota = None
        return form_html(quota, default=self.default_gpus) + (await super().get_options_form() or "")

    # ---------- start and stop

    async def start(self) -> Any:
        """Reserve GPUs, then start the server. Raises the result of `refusal` if the reservation fails."""
        self._reserving = True
        try:
            await self.end_earlier()
            self._workspace = await self._reserve(self.requested_gpus(), self.requested_type())
        finally:
            self._reserving = False
        self._publish(started_on(self._workspace))
        self._start_id = secrets.token_hex(8)
        return await super().start()

    async def _reserve(self, gpus: int, gpu_type: str) -> Workspace:
        try:
            async with asyncio.timeout(self.patience):
                return await self._reservations.reserve(
                    self._notebook, gpus, gpu_type=gpu_type, waits=lambda: self._publish(AWAY)
                )
        except PoolError as error:
            raise refusal(str(error), status=error.status, reason="build-quota") from None
        except Superseded:
            raise refusal("This notebook was stopped while it started.", status=409, reason="stopped") from None
        except TimeoutError:
            message = (
                f"The Springtide service, which hands out the GPUs, has not answered for {self.patience:.0f} "
                "seconds. Your notebook was not started; try again in a minute, and ask an admin if it persists."
            )
            raise refusal(message, status=503, reason="service-away") from None

    def _publish(self, news: str) -> None:
        changed = news != self._news
        self._news = news
        if changed and self._news_changed is not None:
            self._news_changed.set()

    async def progress(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the messages of the pending page: the wait for GPUs, the reserved GPUs, then the spawner's own.

        The hub's own "Spawning server..." is left out, because it would replace the previous message.
        """
        while self._workspace is None:
            if self._news_changed is None or self._news_changed.is_set():
                self._news_changed = asyncio.Event()
            changed = self._news_changed
            yield {"progress": 10, "message": self._news}
            await changed.wait()
        yield {"progress": 30, "message": self._news}
        if super().progress != MethodType(Spawner.progress, self):
            async for event in super().progress():
                yield event

    async def stop(self, now: bool = False) -> None:
        """Stop the server as the spawner does; the GPUs are released later by `run_post_stop_hook`."""
        await super().stop(now)

    async def poll(self) -> int | None:
        """Return the spawner's status; a server whose reservation is in progress counts as running."""
        if self._reserving:
            return None
        status: int | None = await super().poll()
        if status is None and not self._confirmed:
            self._confirmed = True
            self._confirming = asyncio.ensure_future(self._confirm())
        return status

    async def _confirm(self) -> None:
        """Repeat a running notebook's reservation after a restart of the hub, in case the service lost its record.

        If the spawner chose the GPUs, their UUIDs identify them. A cluster chooses those of a pod.
        """
        found = self._workspace
        assert found is not None
        try:
            reserved = await self._reservations.reserve(
                self._notebook,
                found.gpus,
                gpu_type=found.gpu_type,
                runs_on=() if found.resource else found.uuids,
                waits=lambda: None,
            )
        except Superseded:
            self.log.debug("%s was stopped before its reservation was confirmed", self._log_name)
        except PoolError as error:
            self.log.error("%s runs without a reservation: %s", self._log_name, error)  # noqa: TRY400
        else:
            if reserved.uuids != found.uuids:
                self.log.error("%s runs on %s, and has %s reserved", self._log_name, found.uuids, reserved.uuids)
            elif self._workspace is found:
                self._workspace = reserved

    def run_post_stop_hook(self) -> Awaitable[None]:
        """Release the GPUs, then run the admin's hook. The hub calls this after each end and each failed start."""
        return self._release(super().run_post_stop_hook)

    async def end_earlier(self) -> None:
        """End an earlier server of this name that the hub does not know; does nothing if that cannot be known.

        Raises the result of `refusal` if it does not end.
        """

    async def end_leftovers(self) -> None:
        """End the leftover processes of the stopped server; does nothing for a spawner that cannot know it."""

    async def _release(self, hook: Any) -> None:
        await self.end_leftovers()
        await self._reservations.release(self._notebook, patience=5)
        done = hook()
        if asyncio.iscoroutine(done) or asyncio.isfuture(done):
            await done

    def get_env(self) -> dict[str, str]:
        """Return the spawner's environment, with only the reserved GPUs visible, and where datasets are."""
        env: dict[str, str] = super().get_env()
        uuids = ",".join(self._workspace.uuids) if self._workspace else ""
        gpus = {"CUDA_VISIBLE_DEVICES": uuids, "NVIDIA_VISIBLE_DEVICES": uuids or "void"}
        return env | gpus | self._mark() | variable(self._datasets)

    def _mark(self) -> dict[str, str]:
        """Return the variable by which the pool finds the server among the processes of this machine."""
        if not self.state_dir or self._workspace is None:
            return {}
        mark = notebooks.Mark(
            pool=self.state_dir,
            user=self.user.name,
            server=self.name,
            start=self._start_id,
            gpus=tuple(self._workspace.uuids),
            gpu_type=self._workspace.gpu_type,
            port=self.port,
        )
        return {notebooks.VARIABLE: msgspec.json.encode(mark).decode()}

    # ---------- state that outlives the hub

    def get_state(self) -> dict[str, Any]:
        """Return the spawner's state and the reservation."""
        state: dict[str, Any] = super().get_state()
        if self._workspace is not None:
            state["springtide"] = msgspec.to_builtins(self._workspace)
        return state

    def load_state(self, state: dict[str, Any]) -> None:
        """Load the state and the reservation of a running notebook after a restart of the hub."""
        super().load_state(state)
        if "springtide" in state:
            self._workspace = msgspec.convert(state["springtide"], Workspace)
            self._confirmed = False

    def clear_state(self) -> None:
        """Clear the state after the end of a server or before its start."""
        super().clear_state()
        self._workspace = None
        self._confirmed = True
        self._news = ASKING


def started_on(workspace: Workspace) -> str:
    """Return a sentence that names the GPUs of a starting notebook."""
    if not workspace.gpus:
        return "Your workspace is starting, without GPUs."
    kind = "simulated GPU" if workspace.simulated else "GPU"
    return f"Your workspace is starting with {count(workspace.gpus, kind)}: {', '.join(workspace.labels)}."

"""Handlers of the notebook server: behind its log-in and its XSRF check, in front of the pool."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler, JupyterHandler
from jupyter_server.utils import url_path_join
from tornado.iostream import StreamClosedError
from tornado.web import HTTPError, authenticated

from springtide.scheduler.wire import Problem
from springtide.widgets.connection import NOT_ON_HUB
from springtide.widgets.server_extension import form
from springtide.widgets.server_extension.allowed import (
    EVENTS_QUERY,
    Target,
    last_event_id,
    output_target,
    query_text,
    table_target,
    target,
)
from springtide.widgets.server_extension.board_handlers import JOBS, BoardHandler
from springtide.widgets.server_extension.boards import Boards
from springtide.widgets.server_extension.environments import Workshop
from springtide.widgets.server_extension.notices import Claims
from springtide.widgets.server_extension.pool_gate import OCTETS, GateError, PoolGate
from springtide.widgets.server_extension.sending import Sending, Sight, describe, preview, read, send
from springtide.widgets.server_extension.terminals import open_terminal
from springtide.widgets.shared_pool import Pool

PREFIX: Final = "springtide"
MAX_BODY: Final = 64 * 1024
"""Maximum size of a request body that is passed on, in bytes."""
STREAMS: Final = 16
"""Maximum number of event streams that one notebook server passes on at a time."""
STALLED_S: Final = 10.0
"""Time after which the connection of a stalled page is closed, in seconds."""
NO_POOL: Final = Problem(status=503, code="no_pool", message=NOT_ON_HUB)
TOO_MANY: Final = Problem(
    status=429,
    code="too_many_streams",
    message=f"This notebook server passes on {STREAMS} event streams already, the most that it may.",
    hint="Close tabs of JupyterLab that are not needed.",
)

Handlers = list[tuple[str, type[JupyterHandler], dict[str, Any]]]
Answering = Callable[..., Awaitable[object]]
Handling = Callable[..., Awaitable[None] | None]


class Gateway:
    """Shared state of one server's handlers: the gate to its pool, if there is one, and the number of streams.

    ``workshop`` makes environments of the server's user, with or without a pool; ``claims`` are the notices that
    its pages show.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        url = environment.get("SPRINGTIDE_URL", "")
        self.gate = PoolGate(url, environment.get("JUPYTERHUB_API_TOKEN", "")) if url else None
        self.streams = 0
        self.workshop = Workshop(environment)
        self.claims = Claims()


class PoolHandler(APIHandler):
    """Base of the handlers: log-in and authorisation of the notebook server, and errors as problems."""

    auth_resource = PREFIX
    _track_activity = False  # an open page is no sign of activity

    def initialize(self, gateway: Gateway) -> None:
        """Store the shared state of the handlers."""
        self.gateway = gateway

    def expect_pool(self) -> None:
        """Raise `GateError` if there is no pool."""
        _ = self.gate

    @property
    def gate(self) -> PoolGate:
        """Return the gate to the pool. Raises `GateError` if there is none."""
        if self.gateway.gate is None:
            raise GateError(NO_POOL)
        return self.gateway.gate

    def query(self) -> dict[str, Sequence[str]]:
        """Return the query parameters. Raises `HTTPError` 400 for one that is no text."""
        return {name: self.get_query_arguments(name) for name in self.request.query_arguments}

    def check_size(self) -> None:
        """Raise `GateError` for a body that is larger than any that is passed on."""
        size = len(self.request.body)
        if size > MAX_BODY:
            message = f"The request has {size} bytes; a notebook server takes {MAX_BODY} at most."
            raise GateError(Problem(status=413, code="too_large", message=message))

    def answer(self, status: int, content: bytes) -> None:
        """Answer with JSON of the pool."""
        self.set_status(status)
        self.set_header("Content-Type", "application/json")
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.finish(content)

    def refuse(self, problem: Problem) -> None:
        """Answer with an error."""
        self.answer(problem.status, msgspec.json.encode(problem))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer an error of the notebook server itself as a problem, without internal details."""
        error = kwargs.get("exc_info", (None, None))[1]
        said = error.log_message if isinstance(error, HTTPError) and status_code < 500 else None
        message = said or f"The notebook server answered {status_code}."
        hint = "Reload the page, and log in again if it asks." if status_code == 403 else ""
        self.refuse(Problem(status=status_code, code="notebook_server", message=message, hint=hint))


class CallHandler(PoolHandler):
    """Calls with one answer."""

    async def _pass_on(self, path: str) -> None:
        wanted = target(str(self.request.method), path, self.query())
        if isinstance(wanted, Problem):
            self.refuse(wanted)
            return
        try:
            self.answer(*await self.gate.ask(wanted, self._body(wanted)))
        except GateError as error:
            self.refuse(error.problem)

    def _body(self, wanted: Target) -> bytes | None:
        if not wanted.takes_body:
            return None
        self.check_size()
        body = self.request.body
        try:
            json.loads(body)
        except ValueError:
            raise GateError(Problem(status=422, code="invalid", message="The body must be JSON.")) from None
        return body

    @authenticated
    @authorized
    async def get(self, path: str) -> None:
        """Pass a request to read on."""
        await self._pass_on(path)

    @authenticated
    @authorized
    async def post(self, path: str) -> None:
        """Pass a request to change something on."""
        await self._pass_on(path)

    @authenticated
    @authorized
    async def patch(self, path: str) -> None:
        """Pass a change of a thing on."""
        await self._pass_on(path)

    @authenticated
    @authorized
    async def delete(self, path: str) -> None:
        """Pass a request to delete something on."""
        await self._pass_on(path)


class RelayHandler(PoolHandler):
    """Base of streaming handlers, which pass data on no faster than the page takes it."""

    _reading: asyncio.Task[None] | None = None

    async def relay(self, work: Coroutine[Any, Any, None]) -> None:
        """Pass an answer on until either side closes it. A refusal is answered if nothing was passed on."""
        self._reading = asyncio.create_task(work)
        try:
            await self._reading
        except GateError as error:
            if not self._headers_written:
                if error.retry_after:
                    self.set_header("Retry-After", error.retry_after)
                self.refuse(error.problem)
        except (asyncio.CancelledError, StreamClosedError):
            pass
        except TimeoutError:
            self.break_off()

    def break_off(self) -> None:
        """Close the connection to the page, so that it sees that not all has come."""
        self.request.connection.stream.close()  # type: ignore[union-attr]

    def on_connection_close(self) -> None:
        """Close the pool's side as well."""
        if self._reading is not None:
            self._reading.cancel()

    async def pass_piece(self, piece: bytes) -> None:
        """Send a piece to the page. Raises `TimeoutError` if the page does not take it."""
        self.write(piece)
        await asyncio.wait_for(self.flush(), STALLED_S)


class EventsHandler(RelayHandler):
    """The event stream."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Pass the stream on until either side closes it."""
        if self.gateway.streams >= STREAMS:
            self.refuse(TOO_MANY)
            return
        self.gateway.streams += 1
        try:
            await self.relay(self._events())
        finally:
            self.gateway.streams -= 1

    async def _events(self) -> None:
        resumed = last_event_id(self.request.headers.get("Last-Event-ID"))
        async with self.gate.events(query_text(self.query(), EVENTS_QUERY), resumed) as pieces:
            self.set_header("Content-Type", "text/event-stream")
            self.set_header("Cache-Control", "no-store")
            self.set_header("X-Accel-Buffering", "no")
            self.set_header("X-Content-Type-Options", "nosniff")
            async for piece in pieces:
                await self.pass_piece(piece)


class FileHandler(RelayHandler):
    """Base of handlers of files, to be saved or read by a script: no browser shows or runs them."""

    async def pass_file(self, wanted: Target, name: str) -> None:
        """Pass a file on under this name. Raises `GateError`."""
        try:
            async with self.gate.file(wanted) as file:
                self.set_header("Content-Type", OCTETS)
                self.set_header("Content-Disposition", f"attachment; filename*=UTF-8''{quote(name, safe='')}")
                self.set_header("Content-Length", str(file.size))
                self.set_header("Cache-Control", "no-store")
                self.set_header("X-Content-Type-Options", "nosniff")
                await self.pass_piece(b"")
                async for piece in file.pieces:
                    await self.pass_piece(piece)
        except GateError:
            if self._headers_written:
                self.break_off()
            raise


class OutputHandler(FileHandler):
    """An output file of a job."""

    @authenticated
    @authorized
    async def get(self, job_id: str, name: str) -> None:
        """Pass the file on."""
        wanted = output_target(job_id, name)
        if isinstance(wanted, Problem):
            self.refuse(wanted)
            return
        await self.relay(self.pass_file(wanted, name.rpartition("/")[2]))


class TableHandler(FileHandler):
    """A list of jobs as CSV."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Pass the file on."""
        await self.relay(self.pass_file(table_target(self.query()), "jobs.csv"))


def answers(status: int) -> Callable[[Answering], Handling]:
    """Answer what a method returns as JSON with this status; of a `GateError` the problem."""

    def decorate(method: Answering) -> Handling:
        @authenticated
        @authorized
        @wraps(method)
        async def answering(self: PoolHandler, *words: str) -> None:
            try:
                self.check_size()
                found = await method(self, *words)
            except GateError as error:
                self.refuse(error.problem)
            else:
                self.answer(status, msgspec.json.encode(found))

        return answering

    return decorate


class SendHandler(PoolHandler):
    """Jobs sent from the page."""

    @answers(201)
    async def post(self) -> object:
        """Send a script, a notebook or a command as a job."""
        self.expect_pool()
        root = Path(self.settings["server_root_dir"])
        return await asyncio.to_thread(send, read(self.request.body, Sending), root, Pool())


class PreviewHandler(PoolHandler):
    """What the page is about to send."""

    @answers(200)
    async def post(self) -> object:
        """Answer the parameters of a notebook with the errors of typed ones, or why a cell cannot be sent."""
        root = Path(self.settings["server_root_dir"])
        return await asyncio.to_thread(preview, read(self.request.body, Sight), root)


class EnvironmentHandler(PoolHandler):
    """The environment of a job before the page sends it."""

    @answers(200)
    async def post(self) -> object:
        """Answer the environment of a script, a notebook or a command. Nothing is submitted."""
        self.expect_pool()
        root = Path(self.settings["server_root_dir"])
        return await asyncio.to_thread(describe, read(self.request.body, Sending), root, Pool())


class EnvironmentsHandler(PoolHandler):
    """Environments of the server's user."""

    @answers(202)
    async def post(self) -> object:
        """Begin to make an environment."""
        return self.gateway.workshop.begin(self.request.body)


class EnvironmentProgressHandler(PoolHandler):
    """How far an environment is."""

    @answers(200)
    async def get(self, name: str) -> object:
        """Answer the progress of an environment, or its problem."""
        return self.gateway.workshop.progress(name)


class TerminalsHandler(PoolHandler):
    """Terminals in running jobs."""

    @answers(201)
    async def post(self) -> object:
        """Open a terminal of this server in a job; what the pool says to it appears there."""
        self.expect_pool()
        return open_terminal(self.request.body, self.settings)


class NoticesHandler(PoolHandler):
    """Notices: all pages list them, and one page shows each in front."""

    @answers(200)
    async def post(self) -> object:
        """Answer those notices of the page that no other page has claimed."""
        return self.gateway.claims.claim(self.request.body)


class FormHandler(PoolHandler):
    """The form: its contents, and the pool's review of the typed options."""

    @answers(200)
    async def get(self) -> object:
        """Answer the fields, the person's projects, and the notebooks of the directory."""
        root = Path(self.settings["server_root_dir"])
        return await form.drawn(self.gate, self.get_query_argument("directory", ""), root)

    @answers(200)
    async def post(self) -> object:
        """Answer the errors by field, and the forecast of the job. Nothing is submitted."""
        return await form.review(self.gate, self.request.body)


def handlers(base_url: str, environment: Mapping[str, str] = os.environ) -> Handlers:
    """Return the handlers of a server whose pages are below ``base_url``."""
    gateway = Gateway(environment)
    shared = {"gateway": gateway}
    boards = {"boards": Boards(environment), "has_pool": gateway.gate is not None}
    at = url_path_join(base_url, PREFIX, "api", "v1")
    return [
        (url_path_join(base_url, PREFIX, "send"), SendHandler, shared),
        (url_path_join(base_url, PREFIX, "preview"), PreviewHandler, shared),
        (url_path_join(base_url, PREFIX, "form"), FormHandler, shared),
        (url_path_join(base_url, PREFIX, "environment"), EnvironmentHandler, shared),
        (url_path_join(base_url, PREFIX, "terminals"), TerminalsHandler, shared),
        (url_path_join(base_url, PREFIX, "notices"), NoticesHandler, shared),
        (url_path_join(base_url, PREFIX, "environments"), EnvironmentsHandler, shared),
        (url_path_join(base_url, PREFIX, "environments", "([^/]+)"), EnvironmentProgressHandler, shared),
        (url_path_join(base_url, PREFIX, "tensorboard", f"{JOBS}(?:/(.*))?"), BoardHandler, boards),
        (f"{at}/events", EventsHandler, shared),
        (f"{at}/jobs/([^/]+)/output/(.+)", OutputHandler, shared),
        (f"{at}/jobs[.]csv", TableHandler, shared),
        (f"{at}/(.*)", CallHandler, shared),
    ]

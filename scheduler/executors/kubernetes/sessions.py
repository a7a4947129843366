"""Sessions in attempts of a cluster: each has a relay in the container of its worker."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from contextlib import suppress

from springtide.scheduler.executors.base import AttemptKey, ExecutorError
from springtide.scheduler.executors.kubernetes.objects import manifests, names
from springtide.scheduler.executors.session import Session, SessionSpec, Stream
from springtide.scheduler.executors.session_requests import end_of, refused, request_of
from springtide.scheduler.executors.supervisor import relay
from springtide.scheduler.executors.supervisor.relay import piece
from springtide.scheduler.kube import PODS, Api, ApiError
from springtide.scheduler.kube.pod_programs import PodProgram, run_in_pod
from springtide.scheduler.wire.sessions import SessionEnd, TerminalSize
from springtide.scheduler.wording import LONG_GIVEN, given

log = logging.getLogger(__name__)

ANSWERS_WITHIN = 30.0
"""Time for the relay to start and the supervisor to start the program, in seconds."""
ALIVE_EVERY = 15.0
"""Interval at which the relay is asked for a sign of life, in seconds."""
SILENT = 90.0
"""Time without a piece after which the connection counts as lost, in seconds."""
LOST = "The connection to the job's pod was lost."
NO_RELAY = (
    "The supervisor of the job does not answer: an earlier version of Springtide has started the job, or the job "
    "is about to end."
)
FORBIDDEN, NOT_FOUND = 403, 404


async def open_session(api: Api, namespace: str, key: AttemptKey, spec: SessionSpec) -> PodSession:
    """Start a session in the pod of a worker. Raises `ExecutorError`."""
    pod = names.pod_name(key, spec.rank)
    request = request_of(spec, manifests.tool_command(spec.tool))
    try:
        command = manifests.relay_command(key, spec.rank)
        program = await run_in_pod(api, namespace, pod, names.CONTAINER, command)
    except ApiError as error:
        raise ExecutorError(await _why(api, namespace, pod, error)) from error
    session = PodSession(program)
    try:
        async with asyncio.timeout(ANSWERS_WITHIN):
            await session.start(request)
    except BaseException as error:
        await session.close()
        if isinstance(error, TimeoutError | ApiError):
            raise ExecutorError(f"The pod {pod} does not answer: its node is very busy, or cut off.") from error
        raise
    return session


async def _why(api: Api, namespace: str, pod: str, error: ApiError) -> str:
    """Return why the cluster runs no program in a pod."""
    if error.status == FORBIDDEN:
        return (
            "The service may not run programs in the pods of jobs: its role lacks create and get of pods/exec. An "
            "admin of the cluster can add them."
        )
    if not await _may_run(api, namespace, pod, error):
        return f"The pod {pod} does not run."
    return f"The cluster runs no program in the pod {pod}: {error.message}"


async def _may_run(api: Api, namespace: str, pod: str, error: ApiError) -> bool:
    """Return whether a pod may still run after an error about it; it may be gone only now."""
    try:
        found = await api.get(PODS, namespace, pod) if error.status != NOT_FOUND else {}
    except ApiError as later:
        return later.status != NOT_FOUND
    is_ending = "deletionTimestamp" in found.get("metadata", {})
    return found.get("status", {}).get("phase") == "Running" and not is_ending


class PodSession(Session):
    """A session whose relay is the ``program`` in the pod."""

    def __init__(self, program: PodProgram) -> None:
        self.end = None
        self._program = program
        self._taken = relay.Pieces()
        self._pieces: deque[relay.Piece] = deque()
        self._alive: asyncio.Task[None] | None = None
        self._closed = asyncio.Event()

    async def start(self, request: bytes) -> None:
        """Have the relay start the program. Raises `ExecutorError`, and `ApiError` if the connection is lost."""
        await self._program.write(piece(relay.REQUEST, request))
        answer = await self._next()
        if answer is None:
            log.warning("The relay of a session did not start: %s", given(self._program.trouble, LONG_GIVEN))
            raise ExecutorError(NO_RELAY)
        kind, content = answer
        if kind == relay.END:
            raise refused(json.loads(content)) or ExecutorError(LOST)
        self._alive = asyncio.create_task(self._ask())

    async def read(self) -> tuple[Stream, bytes] | None:
        """See `Session`."""
        while self.end is None:
            found = await self._next_within(SILENT)
            if found is None:
                self.end = SessionEnd(reason=LOST)
                break
            kind, content = found
            if kind in {relay.OUTPUT, relay.ERRORS}:
                return Stream(kind), content
            if kind == relay.END:
                self.end = end_of(json.loads(content))
        return None

    async def write(self, data: bytes) -> None:
        """See `Session`."""
        for start in range(0, len(data), relay.LONGEST):
            await self._send(piece(relay.INPUT, data[start : start + relay.LONGEST]))
        if not data:
            await self._send(piece(relay.INPUT))

    async def resize(self, size: TerminalSize) -> None:
        """See `Session`."""
        await self._send(piece(relay.RESIZE, relay.SIZE.pack(size.rows, size.columns)))

    async def close(self) -> None:
        """See `Session`. The relay ends with the connection, and the supervisor ends the processes then."""
        self._closed.set()
        if self._alive is not None:
            self._alive.cancel()
        await self._program.close()

    async def _send(self, data: bytes) -> None:
        with suppress(ApiError):  # `read` reports the end
            await self._program.write(data)

    async def _ask(self) -> None:
        while True:
            await asyncio.sleep(ALIVE_EVERY)
            await self._send(piece(relay.ALIVE))

    async def _next_within(self, seconds: float) -> relay.Piece | None:
        """Return the next piece; None if the connection is lost, or the session closed."""
        reading, closed = asyncio.ensure_future(self._next()), asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait({reading, closed}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return reading.result() if reading.done() else None
        except ApiError:
            return None
        finally:
            reading.cancel()
            closed.cancel()
            await asyncio.gather(reading, closed, return_exceptions=True)

    async def _next(self) -> relay.Piece | None:
        while not self._pieces:
            data = await self._program.read()
            if data is None:
                return None
            self._pieces.extend(self._taken.take(data))
        return self._pieces.popleft()

"""Programs that the cluster runs in a container of a pod, as ``kubectl exec`` does."""

from __future__ import annotations

import aiohttp
import msgspec

from springtide.scheduler.kube.api import Api
from springtide.scheduler.kube.connect import no_answer
from springtide.scheduler.kube.resources import PODS

PROTOCOL = "v4.channel.k8s.io"
"""Subprotocol: each message is one byte for the stream, and the content."""
INPUT, OUTPUT, ERRORS, STATUS = range(4)
LONGEST_TROUBLE = 2000
"""Maximum length of the error output that is kept, in bytes."""


class _Status(msgspec.Struct):
    status: str = ""
    message: str = ""


class PodProgram:
    """A running program. ``trouble`` is its error output so far, or why the cluster could not run it."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.trouble = ""
        self._socket = socket

    async def read(self) -> bytes | None:
        """Return the next output; None after the last one. Raises `ApiError` if the connection is lost."""
        while True:
            try:
                message = await self._socket.receive()
            except (aiohttp.ClientError, OSError) as error:
                raise no_answer(error) from error
            if message.type is not aiohttp.WSMsgType.BINARY:
                return None
            stream, content = message.data[0], message.data[1:]
            if stream == OUTPUT and content:
                return bytes(content)
            if stream == ERRORS:
                self.trouble = (self.trouble + content.decode(errors="replace"))[-LONGEST_TROUBLE:]
            if stream == STATUS:
                status = msgspec.json.decode(content, type=_Status)
                if status.status != "Success":
                    self.trouble = self.trouble or status.message

    async def write(self, data: bytes) -> None:
        """Send input, and wait until there is room for more. Raises `ApiError` if the connection is lost."""
        try:
            await self._socket.send_bytes(bytes([INPUT]) + data)
        except (aiohttp.ClientError, OSError) as error:
            raise no_answer(error) from error

    async def close(self) -> None:
        """Close the connection, which ends the input of the program."""
        await self._socket.close()


async def run_in_pod(api: Api, namespace: str, pod: str, container: str, argv: list[str]) -> PodProgram:
    """Run a program in a container. Raises `ApiError`, with status 404 or 400 if the pod does not run."""
    query = [("container", container), ("stdin", "true"), ("stdout", "true"), ("stderr", "true")]
    query += [("command", word) for word in argv]
    return PodProgram(await api.open_websocket(PODS.path(namespace, pod, "exec"), query, PROTOCOL))

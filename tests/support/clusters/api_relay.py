"""A way to the API server that can be cut and restored, for programs beside a cluster."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

from clusters.cluster import Cluster
from clusters.control_plane import write_kubeconfig
from servers.ports import free_ports

from springtide.hub_extension.local_hub.state_dir import LOOPBACK

PIECE = 1 << 16


class ApiRelay:
    """Relays TCP connections to the API server of a cluster.

    To a program that uses ``kubeconfig`` a cut is what the end of the API server would be: open connections end,
    and no new ones are accepted. The cluster itself, and what others do with it, are not disturbed.
    """

    def __init__(self, cluster: Cluster, kubeconfig: Path) -> None:
        [self._port] = free_ports(1)
        self._target = int(cluster.url.rpartition(":")[2])
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self.kubeconfig = kubeconfig
        write_kubeconfig(kubeconfig, f"https://{LOOPBACK}:{self._port}", cluster.ca, cluster.token)

    @classmethod
    @contextlib.contextmanager
    def start(cls, cluster: Cluster, kubeconfig: Path) -> Iterator[ApiRelay]:
        """Yield a relay whose kubeconfig is written to the given path."""
        relay = cls(cluster, kubeconfig)
        thread = Thread(target=relay._loop.run_forever)
        thread.start()
        try:
            relay.restore()
            yield relay
        finally:
            relay.cut()
            relay._loop.call_soon_threadsafe(relay._loop.stop)
            thread.join()
            relay._loop.close()

    def cut(self) -> None:
        """End all connections, and refuse new ones; do nothing when this was done."""
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result()

    def restore(self) -> None:
        """Accept connections again, at the same address; do nothing when this was done."""
        asyncio.run_coroutine_threadsafe(self._restore(), self._loop).result()

    async def _restore(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._relay, LOOPBACK, self._port)

    async def _cut(self) -> None:
        if self._server is None:
            return
        self._server.close()
        self._server = None
        relays = asyncio.all_tasks() - {asyncio.current_task()}
        for writer in self._open:
            writer.transport.abort()
        await asyncio.gather(*relays, return_exceptions=True)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self._registered(writer), contextlib.suppress(OSError):
            there, back = await asyncio.open_connection(LOOPBACK, self._target)
            with self._registered(back):
                await asyncio.gather(_copy(reader, back), _copy(there, writer))

    @contextlib.contextmanager
    def _registered(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        self._open.add(writer)
        try:
            yield
        finally:
            self._open.remove(writer)
            writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy all data, and its end."""
    while piece := await reader.read(PIECE):
        writer.write(piece)
        await writer.drain()
    writer.close()

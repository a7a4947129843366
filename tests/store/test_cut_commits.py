"""The connection to a PostgreSQL server breaks during a commit: the store finds out whether it is on disk."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, make_url, text

from springtide.scheduler.store import Store, StoreUnsureError
from springtide.scheduler.store.queries import reading
from springtide.scheduler.store.records import AuditRecord, WriteBatch

COMMIT = b"COMMIT\0"


class CuttingProxy:
    """Passes connections on to a server. Once `cut` is set, it cuts the one that commits, ``before`` the server
    hears of it or ``after`` the server has done it.
    """

    def __init__(self, server: tuple[str, int]) -> None:
        self.cut = ""
        self._server = server
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._open: list[socket.socket] = [self._listening]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(self._server)
                self._open += [client, server]
                threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()
                threading.Thread(target=self._answer, args=(server, client), daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 16):
                if self.cut == "before" and COMMIT in data:
                    break
                if self.cut and COMMIT in data:
                    self.cut = "answer"
                server.sendall(data)
        self._end(client, server)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                if self.cut == "answer":
                    break
                client.sendall(data)
        self._end(client, server)

    def _end(self, *ends: socket.socket) -> None:
        self.cut = ""
        for each in ends:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def proxied(postgres: str, tmp_path: Path) -> Iterator[tuple[Store, CuttingProxy]]:
    server = make_url(postgres)
    name = f"pool_{secrets.token_hex(6)}"
    admin = create_engine(server.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    admin.dispose()
    proxy = CuttingProxy((server.host, server.port))
    url = server.set(port=proxy.port, database=name).render_as_string(hide_password=False)
    store = Store.open(url, tmp_path, lock_wait=0.0)
    yield store, proxy
    store.close()
    proxy.close()


def entry(number: int) -> WriteBatch:
    return WriteBatch(audit=[AuditRecord(number, 1.0, "susan", "test", "pool", {}, {})])


@pytest.mark.parametrize(("cut", "committed"), [("before", False), ("after", True)])
def test_a_commit_without_an_answer_is_found_or_missed_afterwards(proxied: Any, cut: str, committed: bool):
    store, proxy = proxied
    store.commit(entry(1))
    proxy.cut = cut
    with pytest.raises(StoreUnsureError):
        store.commit(entry(2))
    assert store.is_committed() is committed
    assert (store.read(reading.audit_entry, 2) is not None) is committed
    store.commit(entry(3))
    assert store.is_committed()
    assert store.read(reading.audit_entry, 3) is not None

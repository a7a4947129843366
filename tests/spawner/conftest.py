"""One real hub for the spawner's tests, with named servers and quick eyes for dead ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hubs.hub_people import Hub, Person
from hubs.hub_process import WITHOUT_PAGES

CONFIG = """
c.JupyterHub.allow_named_servers = True
c.Spawner.poll_interval = 1
c.Spawner.poll_jitter = 0
c.JupyterHub.tornado_settings = {"slow_spawn_timeout": 100}
c.BuildQuota.patience = 100
c.Springtide.stop_idle_workspaces = True
c.Springtide.datasets = {"digits": {"path": "/srv/digits"}}

import threading
from sqlalchemy import event
from sqlalchemy.engine import Engine

@event.listens_for(Engine, "before_cursor_execute")
def note_thread(connection, cursor, statement, *_):
    if threading.current_thread() is not threading.main_thread():
        print("asked beside the event loop:", statement)
"""


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("hub") / "state", CONFIG + WITHOUT_PAGES)
    hub.start()
    yield hub
    hub.stop()


@pytest.fixture
def susan(hub: Hub) -> Iterator[Person]:
    yield from somebody(hub, "susan")


@pytest.fixture
def joe(hub: Hub) -> Iterator[Person]:
    yield from somebody(hub, "joe")


@pytest.fixture
def jemma(hub: Hub) -> Iterator[Person]:
    yield from somebody(hub, "jemma")


def somebody(hub: Hub, name: str) -> Iterator[Person]:
    person = Person(hub, name)
    yield person
    person.close()

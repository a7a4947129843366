"""Follows the objects of a kind on an API server that may be away, as any client of Kubernetes does."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from threading import Event, Thread
from typing import Any

import httpx
from clusters.cluster import Cluster

SERVER_TIMEOUT_S = 5
READ_TIMEOUT_S = 30.0
AGAIN_S = 0.5
GONE = 410

Seen = Callable[[str, dict[str, Any], bool], None]
"""Takes the kind of an event, the object, and whether the event is made up because the real one was missed."""


class Watch:
    """One thread that lists and watches: ``seen`` gets all events of an object, in order.

    If it has to list again, because the server has forgotten the events in between, ``missed`` is called.
    """

    def __init__(self, cluster: Cluster, path: str, seen: Seen, missed: Callable[[], None]) -> None:
        self._cluster = cluster
        self._path = path
        self._seen = seen
        self._missed = missed
        self._known: dict[str, dict[str, Any]] = {}
        self._stop = Event()
        self._listed = False
        self._version = ""
        self.failure: Exception | None = None
        self._thread = Thread(target=self._run, daemon=True, name=f"watch {path}")

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Watch in this block."""
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join(READ_TIMEOUT_S)

    def _run(self) -> None:
        with self._cluster.client(httpx.Timeout(30.0, read=READ_TIMEOUT_S)) as client:
            while not self._stop.is_set():
                try:
                    if not self._version:
                        self._version = self._list(client)
                    self._follow(client)
                except httpx.HTTPError:
                    self._stop.wait(AGAIN_S)
                except Exception as error:
                    self.failure = error
                    raise

    def _list(self, client: httpx.Client) -> str:
        answer = client.get(self._path)
        answer.raise_for_status()
        if self._listed:
            self._missed()
        self._listed = True
        listed = answer.json()
        there = {found["metadata"]["uid"]: found for found in listed["items"]}
        for uid in self._known.keys() - there.keys():
            self._seen("DELETED", self._known.pop(uid), True)
        for uid, found in there.items():
            if uid not in self._known or self._known[uid]["metadata"]["resourceVersion"] != _version(found):
                self._known[uid] = found
                self._seen("MODIFIED", found, False)
        return str(listed["metadata"]["resourceVersion"])

    def _follow(self, client: httpx.Client) -> None:
        """Pass on events until the watch ends, each once however it ends; forget the version to list again."""
        query = {
            "watch": "true",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(SERVER_TIMEOUT_S),
        }
        with client.stream("GET", self._path, params=query) as answer:
            if answer.status_code == GONE:
                self._version = ""
                return
            answer.raise_for_status()
            with contextlib.suppress(httpx.RemoteProtocolError):
                for line in answer.iter_lines():
                    if self._stop.is_set():
                        break
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        self._version = ""
                        return
                    self._version = _version(event["object"])
                    self._pass_on(event["type"], event["object"])

    def _pass_on(self, kind: str, found: dict[str, Any]) -> None:
        if kind == "BOOKMARK":
            return
        uid = found["metadata"]["uid"]
        if kind == "DELETED":
            self._known.pop(uid, None)
        else:
            self._known[uid] = found
        self._seen(kind, found, False)


def _version(found: dict[str, Any]) -> str:
    return str(found["metadata"]["resourceVersion"])

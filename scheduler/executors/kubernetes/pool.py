"""What the cluster has for us: nodes, what others take of them, and homes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from springtide.scheduler.executors.base import ExecutorError
from springtide.scheduler.executors.kubernetes import names
from springtide.scheduler.executors.kubernetes.inventory import Inventory, out_of_service, silent_since
from springtide.scheduler.executors.kubernetes.seen import Claim, ClusterNode, Pod
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.kube import CLAIMS, NODES, PODS, Api, ApiError, Mirror

log = logging.getLogger(__name__)

FORBIDDEN = 403
NOT_FOUND = 404
TELL_AFTER = 0.3
"""Seconds in which changes of the inventory are told as one."""
AGAIN_AFTER = 2.0
HOME_USER = "hub.jupyter.org/username"
HOME_SERVER = "hub.jupyter.org/servername"
ALIVE = "status.phase!=Succeeded,status.phase!=Failed,spec.nodeName!="


class Pool:
    """Mirrors of nodes, of other people's pods and of claims.

    ``tell`` is called when the inventory changed; ``lose(node, why)`` when it is certain that nothing runs on a
    node any more.
    """

    def __init__(
        self, settings: KubernetesSettings, api: Api, tell: Callable[[], None], lose: Callable[[str, str], None]
    ) -> None:
        self.inventory = Inventory(settings)
        self._settings = settings
        self._api = api
        self._tell = tell
        self._lose = lose
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._lost: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._homes: dict[str, dict[str, str]] = {}
        selector = ",".join(f"{name}={value}" for name, value in sorted(settings.node_selector.items()))
        self._nodes = Mirror(
            api, NODES, labels=selector, shape=ClusterNode, changed=self._node_changed, heard=self.changed
        )
        self._claims = Mirror(api, CLAIMS, settings.namespace, shape=Claim, changed=self._claim_changed)
        self._foreign = self._others(None)
        self._mirrors: list[Mirror[ClusterNode] | Mirror[Pod] | Mirror[Claim]] = []

    def _others(self, namespace: str | None) -> Mirror[Pod]:
        labels = f"{names.POOL}!={self._settings.pool}"
        return Mirror(
            self._api,
            PODS,
            namespace,
            labels=labels,
            fields=ALIVE,
            shape=Pod,
            changed=self._foreign_changed,
            heard=self.changed,
        )

    async def start(self) -> None:
        """Begin to watch.

        Raises `ApiError` if the cluster cannot be asked, `ExecutorError` if it may not be.
        """
        if not self._settings.static_nodes:
            try:
                await self._begin(self._nodes)
            except ApiError as error:
                if error.status != FORBIDDEN:
                    raise
                raise ExecutorError(
                    f"The service may not list the nodes of the cluster: {error.message} Allow it, or tell "
                    f"static_nodes."
                ) from error
        try:
            await self._begin(self._foreign)
        except ApiError as error:
            if error.status != FORBIDDEN:
                raise
            log.warning("Pods of other namespaces may not be listed: their GPUs are not accounted for.")
            self._foreign = self._others(self._settings.namespace)
            await self._begin(self._foreign)
        await self._begin(self._claims)

    async def _begin(self, mirror: Mirror[ClusterNode] | Mirror[Pod] | Mirror[Claim]) -> None:
        await mirror.start()
        self._mirrors.append(mirror)

    async def close(self) -> None:
        """Watch no more."""
        for mirror in self._mirrors:
            await mirror.stop()
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def fresh(self) -> bool:
        """Whether all that is known is recent."""
        return all(mirror.fresh for mirror in self._mirrors)

    def home_of(self, user: str) -> str | None:
        """The claim of a user's home, as KubeSpawner marks it; that of the unnamed server first."""
        return min(self._homes.get(user, {}).items(), key=lambda item: (item[1], item[0]), default=(None, ""))[0]

    # ---------- changes

    def changed(self) -> None:
        """The inventory may have changed: tell soon, once for all changes till then."""
        if self._timer is None:
            self._timer = self._loop.call_later(TELL_AFTER, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._tell()

    def _foreign_changed(self, before: Pod | None, after: Pod | None) -> None:
        if self.inventory.saw_foreign(before, after):
            self.changed()

    def _claim_changed(self, before: Claim | None, after: Claim | None) -> None:
        for claim in (before, after):
            notes = claim.metadata.annotations if claim is not None else {}
            if claim is None or HOME_USER not in notes:
                continue
            homes = self._homes.setdefault(notes[HOME_USER], {})
            homes.pop(claim.metadata.name, None)
            if claim is after and claim.metadata.deletion_timestamp is None:
                homes[claim.metadata.name] = notes.get(HOME_SERVER, "")

    # ---------- lost nodes

    def _node_changed(self, before: ClusterNode | None, after: ClusterNode | None) -> None:
        if self.inventory.saw_node(before, after):
            self.changed()
        name = (after or before or ClusterNode()).metadata.name
        if after is None:
            self.check(name)
        elif not out_of_service(after):
            self._lost.discard(name)
        else:
            self._declare(name, f"Its node {name} was declared to be out of service.")

    def check(self, name: str) -> None:
        """See whether there still is a node that we cannot see."""
        if not name or self._settings.static_nodes or ("", name) in self._nodes.items:
            return
        task = self._loop.create_task(self._check(name), name=f"check of node {name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _check(self, name: str) -> None:
        while ("", name) not in self._nodes.items:
            try:
                await self._api.get(NODES, None, name)
            except ApiError as error:
                if error.status == NOT_FOUND:
                    self._lose(name, f"Its node {name} was removed from the cluster.")
                    return
                if not error.passing:
                    log.warning("The node %s cannot be looked at: %s", name, error)
                    return
            else:
                return  # it is there, and only not one of the pool any more
            await asyncio.sleep(AGAIN_AFTER)

    def look(self, now: float) -> None:
        """Give up nodes that are silent for longer than the admin allows."""
        patience = self._settings.lost_after
        if patience is None or not self.fresh:
            return
        for node in self._nodes.items.values():
            since = silent_since(node)
            if since is not None and now - since >= patience:
                self._declare(node.metadata.name, f"Nothing was heard of its node {node.metadata.name} any more.")
            elif since is None and not out_of_service(node):
                self._lost.discard(node.metadata.name)

    def _declare(self, name: str, why: str) -> None:
        if name not in self._lost:
            self._lost.add(name)
            self._lose(name, why)

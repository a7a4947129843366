"""Cluster resources for jobs: nodes, the GPUs taken by other pods, and homes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TypeAlias

from springtide.scheduler.backoff import Backoff, no_jitter
from springtide.scheduler.executors.base import ExecutorError, RunningNotebook, WorkspacePlaces
from springtide.scheduler.executors.kubernetes import homes
from springtide.scheduler.executors.kubernetes.devices.upkeep import ClaimTemplates
from springtide.scheduler.executors.kubernetes.homes import Home, home_in_jobs
from springtide.scheduler.executors.kubernetes.inventory import (
    Inventory,
    leaving_by,
    out_of_service,
    ready,
    unreachable_since,
)
from springtide.scheduler.executors.kubernetes.objects import names
from springtide.scheduler.executors.kubernetes.objects.api_types import (
    ClusterNode,
    Pod,
    ResourceClaim,
    ResourceSlice,
    VolumeClaim,
)
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.executors.kubernetes.slots import PodName
from springtide.scheduler.kube import (
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    VOLUME_CLAIMS,
    Api,
    ApiError,
    Informer,
)
from springtide.scheduler.wording import given

log = logging.getLogger(__name__)

FORBIDDEN = 403
NOT_FOUND = 404
REPORT_DELAY = 0.3
"""Time in which changes of the inventory are reported as one, in seconds."""
FIRST_NODE_CHECK = 2.0
LONGEST_NODE_CHECK = 10.0
FIRST_SET_ASIDE = 30.0
"""Time for which a node that refused a pod gets no other, in seconds; doubled by each further refusal."""
LONGEST_SET_ASIDE = 600.0
ALIVE_AND_BOUND = "status.phase!=Succeeded,status.phase!=Failed,spec.nodeName!="
NOMINATED = "status.nominatedNodeName!=,spec.nodeName="
"""Pods for which the cluster's scheduler preempts others: it keeps the freed resources for them."""

AnyInformer: TypeAlias = (
    Informer[ClusterNode]
    | Informer[Pod]
    | Informer[VolumeClaim]
    | Informer[ResourceSlice]
    | Informer[ResourceClaim]
)


class ClusterResources:
    """Informers of nodes, of pods that are not jobs, of volume claims, and of devices and claims of them.

    ``on_inventory_change`` is called when the inventory changed; ``on_node_lost(node, why)`` when it is certain
    that nothing runs on a node any more, ``on_node_leaving(node, why)`` when a node is about to be removed.
    """

    def __init__(
        self,
        settings: KubernetesSettings,
        api: Api,
        on_inventory_change: Callable[[], None],
        on_node_lost: Callable[[str, str], None],
        on_node_leaving: Callable[[str, str], None],
    ) -> None:
        self.inventory = Inventory(settings)
        self._settings = settings
        self._api = api
        self._on_inventory_change = on_inventory_change
        self._on_node_lost = on_node_lost
        self._on_node_leaving = on_node_leaving
        self._loop = asyncio.get_running_loop()
        self._report_timer: asyncio.TimerHandle | None = None
        self._lost: dict[str, str] = {}
        self._refusals: dict[str, Backoff] = {}
        self._refused_at: dict[str, float] = {}
        self._set_aside: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._homes: dict[str, dict[str, str]] = {}
        selector = ",".join(f"{name}={value}" for name, value in sorted(settings.node_selector.items()))
        self._nodes = Informer(
            api,
            NODES,
            labels=selector,
            decode_as=ClusterNode,
            on_change=self._node_changed,
            on_contact=self.report_change,
        )
        self._claims = Informer(
            api, VOLUME_CLAIMS, settings.namespace, decode_as=VolumeClaim, on_change=self._claim_changed
        )
        self._other_pods = self._informer_of_other_pods(None)
        self._nominated_pods = self._informer_of_nominated_pods(None)
        self._namesakes = (
            self._informer_of_namesakes(ALIVE_AND_BOUND, self.other_pod_changed),
            self._informer_of_namesakes(NOMINATED, self._nominated_pod_changed),
        )
        self._slices = Informer(
            api,
            RESOURCE_SLICES,
            fields=f"spec.driver={settings.device_driver}",
            decode_as=ResourceSlice,
            on_change=self._slice_changed,
            on_contact=self.report_change,
        )
        self._device_claims = Informer(
            api,
            RESOURCE_CLAIMS,
            decode_as=ResourceClaim,
            on_change=self._device_claim_changed,
            on_contact=self.report_change,
        )
        self._templates = ClaimTemplates(api, settings, self.inventory.claim_templates)
        self._started: list[AnyInformer] = []

    def _informer_of_other_pods(self, namespace: str | None) -> Informer[Pod]:
        return Informer(
            self._api,
            PODS,
            namespace,
            labels=f"{names.POOL}!={self._settings.pool}",
            fields=ALIVE_AND_BOUND,
            decode_as=Pod,
            on_change=self.other_pod_changed,
            on_contact=self.report_change,
        )

    def _informer_of_nominated_pods(self, namespace: str | None) -> Informer[Pod]:
        return Informer(
            self._api,
            PODS,
            namespace,
            labels=f"{names.POOL}!={self._settings.pool}",
            fields=NOMINATED,
            decode_as=Pod,
            on_change=self._nominated_pod_changed,
        )

    def _informer_of_namesakes(
        self, fields: str, on_change: Callable[[Pod | None, Pod | None], None]
    ) -> Informer[Pod]:
        """Return an informer of pods of other namespaces with the label of this pool: its jobs are in its own."""
        return Informer(
            self._api,
            PODS,
            labels=f"{names.POOL}={self._settings.pool}",
            fields=f"{fields},metadata.namespace!={self._settings.namespace}",
            decode_as=Pod,
            on_change=on_change,
            on_contact=self.report_change,
        )

    # ---------- start and stop

    async def start(self) -> None:
        """Start all informers.

        Raises `ApiError` if the cluster does not answer, `ExecutorError` if the service may not list nodes.
        """
        if not self._settings.static_nodes:
            try:
                await self._start_informer(self._nodes)
            except ApiError as error:
                if error.status != FORBIDDEN:
                    raise
                raise ExecutorError(
                    f"The service may not list the nodes of the cluster: {error.message} Allow it, or set "
                    f"static_nodes."
                ) from error
        try:
            await self._start_informer(self._other_pods)
            for informer in self._namesakes:
                await self._start_informer(informer)
        except ApiError as error:
            if error.status != FORBIDDEN:
                raise
            log.warning("Pods of other namespaces may not be listed: their GPUs are not accounted for.")
            self._other_pods = self._informer_of_other_pods(self._settings.namespace)
            self._nominated_pods = self._informer_of_nominated_pods(self._settings.namespace)
            await self._start_informer(self._other_pods)
        await self._start_informer(self._nominated_pods)
        await self._start_informer(self._claims)
        if self._settings.device_class is not None:
            await self._start_following_devices()

    async def _start_following_devices(self) -> None:
        try:
            await self._start_informer(self._slices)
            await self._start_informer(self._device_claims)
            await self._templates.start()
        except ApiError as error:
            if error.status == NOT_FOUND:
                raise ExecutorError(
                    "The cluster has no ResourceSlices of the version resource.k8s.io/v1, and device_class is "
                    f"{given(self._settings.device_class)}. Upgrade it to Kubernetes 1.34 or newer, or leave "
                    "device_class out."
                ) from error
            if error.status != FORBIDDEN:
                raise
            raise ExecutorError(
                f"The service may not follow the devices of the cluster: {error.message} Allow it, or leave "
                "device_class out."
            ) from error

    async def _start_informer(self, informer: AnyInformer) -> None:
        await informer.start()
        self._started.append(informer)

    async def close(self) -> None:
        """Stop all informers."""
        await self._templates.close()
        for informer in self._started:
            await informer.stop()
        for timer in (self._report_timer, *self._set_aside.values()):
            if timer is not None:
                timer.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def fresh(self) -> bool:
        """Whether all informers are fresh."""
        return all(informer.fresh for informer in self._started)

    def home_of(self, user: str) -> Home:
        """Return how jobs have a user's home, as KubeSpawner notes it; that of the unnamed server first."""
        known = self._homes.get(user, {})
        name = min(known.items(), key=lambda item: (item[1], item[0]), default=("", ""))[0]
        claim = self._claims.items.get((self._settings.namespace, name))
        return Home() if claim is None else home_in_jobs(name, claim.access_modes, self._settings.home)

    def workspace_of(self, namespace: str, name: str) -> tuple[str, str] | None:
        """Return user and server of a notebook's pod; None for a pod that is not a notebook's, or unknown."""
        pod = self._other_pods.items.get((namespace, name))
        if pod is None or names.WORKSPACE not in pod.metadata.labels or homes.USER not in pod.metadata.annotations:
            return None
        return pod.metadata.annotations[homes.USER], pod.metadata.annotations.get(homes.SERVER, "")

    def places_of(self, workspaces: WorkspacePlaces) -> dict[PodName, tuple[str, tuple[int, ...]]]:
        """Return node and slots of the workspaces' pods, by namespace and name."""
        if not workspaces:
            return {}
        found = ((pod, self.workspace_of(*pod)) for pod in self._other_pods.items)
        return {pod: workspaces[each] for pod, each in found if each is not None and each in workspaces}

    def notebooks(self) -> tuple[RunningNotebook, ...]:
        """Return the notebooks whose pods are on nodes of the pool."""
        found = []
        for (namespace, name), pod in self._other_pods.items.items():
            workspace = self.workspace_of(namespace, name)
            if workspace is not None and self.inventory.has_host(pod.spec.node_name) and not pod.ended:
                found.append(RunningNotebook(*workspace, place=f"the pod {name} in the namespace {namespace}"))
        return tuple(found)

    def are_bound(self, claims: Iterable[str]) -> bool:
        """Return whether all volume claims of these names exist and have a volume.

        A claim may get its volume only when the cluster's scheduler has chosen a node for a pod that mounts it.
        """
        known = self._claims.items
        found = [known.get((self._settings.namespace, name)) for name in claims]
        return all(claim is not None and claim.status.phase == "Bound" for claim in found)

    # ---------- changes

    def report_change(self) -> None:
        """Report a change of the inventory after `REPORT_DELAY`, together with all changes until then."""
        if self._report_timer is None:
            self._report_timer = self._loop.call_later(REPORT_DELAY, self._report_now)

    def _report_now(self) -> None:
        self._report_timer = None
        self._on_inventory_change()

    def other_pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        """Apply a change of a bound pod other than a job's."""
        if self.inventory.update_other_pod(before, after):
            self.report_change()

    def _nominated_pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if self.inventory.update_nominated_pod(before, after):
            self.report_change()

    def _slice_changed(self, before: ResourceSlice | None, after: ResourceSlice | None) -> None:
        if self.inventory.update_slice(before, after):
            self._templates.complete()
            self.report_change()

    def _device_claim_changed(self, before: ResourceClaim | None, after: ResourceClaim | None) -> None:
        if self.inventory.update_claim(before, after):
            self.report_change()

    def _claim_changed(self, before: VolumeClaim | None, after: VolumeClaim | None) -> None:
        for claim in (before, after):
            annotations = claim.metadata.annotations if claim is not None else {}
            if claim is None or homes.USER not in annotations:
                continue
            known = self._homes.setdefault(annotations[homes.USER], {})
            known.pop(claim.metadata.name, None)
            if claim is after and claim.metadata.deletion_timestamp is None:
                known[claim.metadata.name] = annotations.get(homes.SERVER, "")

    # ---------- nodes that refuse pods

    def set_aside(self, node: str, placed: float) -> None:
        """Stop new placements on a node for a time, because it refused a pod: others have its room.

        ``placed`` is when the pod was placed there, on the clock of the event loop. Refusals of pods that were
        placed before the first one are one with it: they change nothing, also after that time.
        """
        if node in self._set_aside or placed <= self._refused_at.get(node, float("-inf")):
            return
        self._refused_at[node] = self._loop.time()
        refusals = self._refusals.setdefault(node, Backoff(FIRST_SET_ASIDE, LONGEST_SET_ASIDE, jitter=no_jitter))
        seconds = refusals.next_delay()
        log.warning("The node %s did not take a pod: nothing new is placed there for %.0f s.", node, seconds)
        self._set_aside[node] = self._loop.call_later(seconds, self._offer_again, node)
        self.inventory.set_aside(node)

    def accept_pods(self, nodes: Iterable[str]) -> None:
        """Record that these nodes have started a pod: the time of their next refusal is the shortest again.

        Further refusals of pods that were placed before the last one stay one with it.
        """
        for node in nodes if self._refusals else ():
            self._refusals.pop(node, None)

    def _offer_again(self, node: str) -> None:
        del self._set_aside[node]
        self.inventory.offer(node)
        self.report_change()

    # ---------- lost nodes

    def _node_changed(self, before: ClusterNode | None, after: ClusterNode | None) -> None:
        if self.inventory.update_node(before, after):
            self._templates.complete()
            self.report_change()
        name = (after or before or ClusterNode()).metadata.name
        why = self.why_leaving(name) if after is not None else None
        if why is not None and (before is None or leaving_by(before) is None):
            self._on_node_leaving(name, why)
        if after is None:
            self.check_node(name)
        elif not out_of_service(after):
            self._lost.pop(name, None)
        else:
            self._declare_lost(name, f"Its node {name} was declared to be out of service.")

    def why_lost(self, name: str) -> str | None:
        """Return why it is certain that nothing runs on a node any more, None if it is not."""
        return self._lost.get(name)

    def why_leaving(self, name: str) -> str | None:
        """Return by which announcement a node is about to be removed, None if it is not."""
        node = self._nodes.items.get(("", name))
        taint = None if node is None else leaving_by(node)
        return None if taint is None else f"Its node {name} is about to be removed ({taint})."

    def responds(self, name: str) -> bool:
        """Return whether the kubelet of a node does its work; True for one that the service does not see."""
        node = self._nodes.items.get(("", name))
        return self.fresh and (node is None or ready(node))

    def check_node(self, name: str) -> None:
        """Ask the API, in the background, whether a node that the informer does not have exists."""
        if not name or self._settings.static_nodes or ("", name) in self._nodes.items:
            return
        task = self._loop.create_task(self._check_node(name), name=f"check of node {name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _check_node(self, name: str) -> None:
        backoff = Backoff(FIRST_NODE_CHECK, LONGEST_NODE_CHECK)
        while ("", name) not in self._nodes.items:
            try:
                await self._api.get(NODES, None, name)
            except ApiError as error:
                if error.status == NOT_FOUND:
                    self._on_node_lost(name, f"Its node {name} was removed from the cluster.")
                    return
                if not error.transient:
                    log.warning("The node %s cannot be read: %s", name, error)
                    return
            else:
                return  # it exists, and does not belong to the pool any more
            await asyncio.sleep(backoff.next_delay())

    def check_unreachable_nodes(self, now: float) -> None:
        """Declare nodes lost that have been unreachable for ``lost_after`` seconds; ``now`` is wall time."""
        patience = self._settings.lost_after
        if patience is None or not self.fresh:
            return
        for node in self._nodes.items.values():
            name, since = node.metadata.name, unreachable_since(node)
            if since is not None and now - since >= patience:
                self._declare_lost(name, f"Its node {name} has been unreachable for {patience:g} s.")
            elif since is None and not out_of_service(node):
                self._lost.pop(name, None)

    def _declare_lost(self, name: str, why: str) -> None:
        if name not in self._lost:
            self._lost[name] = why
            self._on_node_lost(name, why)

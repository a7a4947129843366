"""Build notebooks as pods of a Kubernetes cluster."""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Coroutine
from copy import deepcopy
from typing import Any, ClassVar

from aiohttp import ClientError
from kubespawner import KubeSpawner
from kubespawner.objects import V1Volume, V1VolumeMount
from kubespawner.spawner import ApiException
from kubespawner.utils import get_k8s_model
from traitlets import Dict, List, Unicode, default

from springtide.scheduler import datasets
from springtide.scheduler.backoff import Backoff
from springtide.scheduler.resources import device_claims
from springtide.spawner import pods, profiles
from springtide.spawner.options import OptionError
from springtide.spawner.quota import BuildQuota, refusal

POLL_INTERVAL_S = 1.0
"""Interval at which the state of a starting pod is read, in seconds."""
GIVE_UP_BEFORE_S = 2.0
"""Time before the hub's own time-out at which a start is given up with a reason, in seconds."""
WATCH_RETRY_S = 5.0
"""Delay before a watch that failed to start is started again, in seconds."""
FIRST_DELAY_S = 1.0
LONGEST_DELAY_S = 15.0
STOP_PATIENCE_S = 600.0
"""Time for which the deletion of a pod is retried, in seconds."""
WORKSPACE = "springtide.io/workspace"
"""Label of notebooks' pods, whose GPUs are reserved in the pool and not taken by others."""


class KubeNotebook(KubeSpawner):
    """KubeSpawner with Springtide's handling of pods.

    Profiles can be restricted to projects; overrides of one start do not affect the next; a watch that has ended
    is started again; evicted and lost pods count as stopped; the pending page says what a pod waits for.
    """

    _reflector_locks: ClassVar[defaultdict[object, asyncio.Lock]] = defaultdict(asyncio.Lock)
    _reflector_failures: ClassVar[dict[object, tuple[float, Exception]]] = {}

    _give_up_at = float("inf")
    """Time at which a start is given up, on the event loop's clock."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._configured: dict[str, Any] = {}

    # ---------- defaults: pods of the restricted Pod Security Standard

    @default("uid")
    def _default_uid(self) -> int:
        return 1000

    @default("fs_gid")
    def _default_fs_gid(self) -> int:
        return 100

    @default("container_security_context")
    def _default_container_security_context(self) -> dict[str, Any]:
        return {
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        }

    # ---------- profiles

    def _projects(self) -> set[str]:
        return {group.name for group in self.user.groups}

    async def _all_profiles(self) -> list[profiles.Profile]:
        """Return all profiles with their slugs, those for other projects included."""
        listed = self.profile_list
        listed = listed(self) if callable(listed) else listed
        listed = self._sorted_dict_values(await listed if isinstance(listed, Awaitable) else listed)
        return list(super()._get_initialized_profile_list(listed))

    async def check_profile(self) -> set[str]:
        """Return the names of the options of the chosen profile. Raises the result of `refusal`."""
        try:
            listed = await self._all_profiles()
            if not listed and self._has_own_form():
                return set()
            return profiles.check(self.user_options, listed, self._projects())
        except profiles.NotForYouError as error:
            raise refusal(str(error), status=403, reason="profile") from None
        except OptionError as error:
            raise refusal(str(error), status=400, reason="options") from None

    def _get_initialized_profile_list(self, profile_list: Any) -> Any:
        return super()._get_initialized_profile_list(profiles.offered(profile_list or [], self._projects()))

    @default("options_form")
    def _options_form_default(self) -> Any:
        return self._render_options_form_dynamically if self.profile_list else ""

    async def _render_options_form_dynamically(self, current_spawner: Any) -> str:
        listed = await current_spawner._all_profiles()  # noqa: SLF001 - of the same class
        return str(current_spawner._render_options_form(listed))  # noqa: SLF001 - as KubeSpawner does

    def _apply_overrides(self, spawner_override: dict[str, Any]) -> None:
        for name in spawner_override:
            present = getattr(self, name, None)
            self._configured.setdefault(name, present)
            setattr(self, name, deepcopy(present))
        super()._apply_overrides(spawner_override)

    def clear_state(self) -> None:
        """Restore the configured values that the last start has overridden."""
        for name, configured in self._configured.items():
            setattr(self, name, configured)
        self._configured.clear()
        super().clear_state()

    # ---------- start

    async def _start(self) -> Any:
        try:
            await self._start_watching_pods()
            return await self._start_or_give_up(super()._start())
        except ApiException as error:
            raise refusal(describe_refusal(error), status=500, reason="cluster") from error
        except (OSError, ClientError) as error:
            why = pods.brief(str(error) or type(error).__name__)
            raise refusal(f"The cluster does not answer: {why}.", status=503, reason="cluster") from error

    async def _start_or_give_up(self, start: Coroutine[Any, Any, Any]) -> Any:
        """Await the start, but give up if the pod can never start or the time is up."""
        starting = asyncio.ensure_future(start)
        failing = asyncio.ensure_future(self._until_hopeless(_uid(self._pod())))
        left = max(POLL_INTERVAL_S, self._give_up_at - asyncio.get_running_loop().time())
        try:
            await asyncio.wait({starting, failing}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                return starting.result()
            given_up = f"{self._describe_pod()} It was given up after {left:.0f} s."
            raise refusal(failing.result() if failing.done() else given_up, status=500, reason="pod")
        finally:
            for task in (starting, failing):
                task.cancel()
            await asyncio.gather(starting, failing, return_exceptions=True)

    async def _until_hopeless(self, earlier: str | None) -> str:
        """Wait until the pod, not an ``earlier`` one of its name, can never start; return why."""
        while True:
            pod = self._pod()
            if pod is not None and _uid(pod) != earlier and (why := pods.hopeless(pod)):
                return why
            await asyncio.sleep(POLL_INTERVAL_S)

    async def progress(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the messages of the pending page: the reason of the pod's wait, and its place in the queue."""
        shown = ""
        while not (self._start_future and self._start_future.done()):
            if (message := self._describe_pod()) != shown:
                shown = message
                yield {"progress": 50, "message": shown}
            await asyncio.sleep(POLL_INTERVAL_S)

    def _describe_pod(self) -> str:
        pod = self._pod()
        if pod is None:
            return pods.news(None, (), None)
        events = self.event_reflector.resources.values() if self.event_reflector else ()
        place = pods.place_in_line(pod, list(self.pod_reflector.pods.values()))
        return pods.news(pod, pods.events_of(pod, events), place)

    def _pod(self) -> pods.Pod | None:
        pod: pods.Pod | None = None
        if self.pod_reflector is not None:
            pod = self.pod_reflector.pods.get(f"{self.namespace}/{self.pod_name}")
        return pod

    # ---------- stop

    async def stop(self, now: bool = False) -> None:
        """Delete the pod and wait for its end; retry for `STOP_PATIENCE_S` while the cluster does not answer."""
        deadline = asyncio.get_running_loop().time() + STOP_PATIENCE_S
        backoff = Backoff(FIRST_DELAY_S, LONGEST_DELAY_S)
        while True:
            try:
                await super().stop(now)
            except Exception as error:
                pod = self._pod()
                if pod is not None and (why := pods.over(pod, time.time())):
                    self.log.warning("%s: %s", self._log_name, why)
                    return
                if asyncio.get_running_loop().time() > deadline or _is_permanent(error):
                    raise
                self.log.warning("The pod of %s could not be deleted yet: %s", self._log_name, error)
            else:
                return
            await asyncio.sleep(backoff.next_delay())

    async def poll(self) -> int | None:
        """Return KubeSpawner's status, and 1 for a pod that was evicted or is lost with its node.

        While the cluster does not answer, a notebook that ran counts as running.
        """
        try:
            await self._start_watching_pods()
        except Exception as error:  # noqa: BLE001 - after any error the state is unknown
            self.log.warning("It is unknown whether the pod of %s runs: %s", self._log_name, error)
            return None
        pod = self._pod()
        if pod is None or (why := pods.over(pod, time.time())) is None:
            status: int | None = await super().poll()
            return status
        self.log.warning("The notebook of %s has stopped. %s", self._log_name, why)
        if pods.ended_by_itself(pod) and self.delete_stopped_pods:
            await self._delete_ended_pod()
        return 1

    async def _delete_ended_pod(self) -> None:
        try:
            await super().stop(now=True)
        except Exception as error:  # noqa: BLE001 - it has ended, and only occupies its name
            self.log.warning("The ended pod of %s could not be deleted: %s", self._log_name, error)

    # ---------- watches

    async def _start_reflector(self, kind: str, reflector_class: Any, replace: bool = False, **kwargs: Any) -> Any:
        """Start a watch as KubeSpawner does, in place of one that has ended; keep none that failed to start."""
        key = self._get_reflector_key(kind)
        clock = asyncio.get_running_loop().time
        async with self._reflector_locks[key]:
            present = self.reflectors.get(key)
            if present is not None and not replace and _is_watching(present):
                return present
            failed_at, error = self._reflector_failures.get(key, (float("-inf"), None))
            if error is not None and clock() - failed_at < WATCH_RETRY_S:
                raise error
            try:
                started = await super()._start_reflector(kind, reflector_class, replace=True, **kwargs)
            except Exception as error:
                self._reflector_failures[key] = (clock(), error)
                if present is None:
                    self.reflectors.pop(key, None)
                else:
                    self.reflectors[key] = present
                raise
            self._reflector_failures.pop(key, None)
            return started


class KubeBuildSpawner(BuildQuota, KubeNotebook):
    """Notebooks as pods on build nodes, each with the GPUs that are reserved for it and no others."""

    gpu_resources = List(
        Unicode(),
        ["nvidia.com/gpu", "nvidia.com/mig-*", "amd.com/gpu"],
        minlen=1,
        help="Names of the extended resources of GPUs, or patterns. A notebook gets those reserved for it.",
    ).tag(config=True)
    build_nodes = Dict(
        {"springtide.io/environment": "build"}, help="Labels of the nodes that notebooks run on."
    ).tag(config=True)

    # ---------- options

    @default("options_from_form")
    def _default_options_from_form(self) -> Any:
        def options(form: dict[str, list[str]]) -> dict[str, object]:
            own = {name: form[name] for name in self.other_options if name in form}
            others = {name: values for name, values in form.items() if name not in own}
            return {**self._options_from_form(others), **own}

        return options

    @default("apply_user_options")
    def _default_apply_user_options(self) -> Any:
        async def check(spawner: KubeBuildSpawner, _options: object) -> None:
            await spawner._check_options()

        return check

    async def _check_options(self) -> None:
        self._profile_options = await self.check_profile()
        self.requested_gpus()
        self.requested_type()

    _profile_options: set[str] = set()  # noqa: RUF012 - replaced, never changed

    @property
    def _other_names(self) -> set[str] | None:
        others = super()._other_names
        return None if others is None else {*others, *self._profile_options}

    async def start(self) -> Any:
        """Check the options, reserve GPUs and start. Raises the result of `refusal` if the start fails."""
        self._give_up_at = asyncio.get_running_loop().time() + self.start_timeout - GIVE_UP_BEFORE_S
        await self._check_options()
        return await super().start()

    # ---------- the pod

    async def get_pod_manifest(self) -> Any:
        """Return KubeSpawner's pod, on build nodes and with the reserved GPUs in place of a profile's."""
        pod = await super().get_pod_manifest()
        as_plain = self.api.api_client.sanitize_for_serialization
        gpus = self._workspace.gpus if self._workspace is not None else 0
        resource = (self._workspace.resource if self._workspace is not None else "") or self.gpu_resources[0]
        is_claimed = bool(gpus) and device_claims.is_claimed(resource)
        for container in [*pod.spec.containers, *(pod.spec.init_containers or [])]:
            resources = as_plain(container.resources) or {}
            is_notebook = container.name == pods.NOTEBOOK
            reserved = {resource: gpus} if is_notebook and not is_claimed else {}
            container.resources = pods.resources(resources, self.gpu_resources, reserved)
            if is_notebook:
                container.volume_mounts = [*(container.volume_mounts or []), *self._dataset_mounts()]
            if is_notebook and is_claimed:
                claims = [*(resources.get("claims") or []), *device_claims.container_claims()]
                container.resources["claims"] = claims
        own = [get_k8s_model(V1Volume, each) for each in datasets.volumes(self._datasets)]
        pod.spec.volumes = [*(pod.spec.volumes or []), *own]
        pod.spec.node_selector = {**(pod.spec.node_selector or {}), **self.build_nodes}
        if self._workspace is not None and gpus:
            pod.spec.affinity = pods.pinned(
                as_plain(pod.spec.affinity) or {}, self._workspace.host or self._workspace.node
            )
        if is_claimed:
            of_pool = device_claims.pod_claims(resource, gpus)
            pod.spec.resource_claims = [*(pod.spec.resource_claims or []), *of_pool]
        pod.metadata.labels = {**(pod.metadata.labels or {}), WORKSPACE: "true"}
        return pod

    def _dataset_mounts(self) -> list[Any]:
        return [get_k8s_model(V1VolumeMount, each) for each in datasets.mounts(self._datasets)]

    def get_env(self) -> dict[str, str]:
        """Return the spawner's environment, with the image as the default one of jobs.

        The GPUs that are visible in a pod are set by the node's device plugin, or the driver of its claim.
        """
        env = super().get_env()
        if self._workspace is not None and self._workspace.gpus:
            env = {
                name: env[name] for name in env if name not in {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"}
            }
        return {**env, "SPRINGTIDE_IMAGE": self.image}


def _uid(pod: pods.Pod | None) -> str | None:
    return None if pod is None else pod["metadata"].get("uid")


def _is_watching(reflector: Any) -> bool:
    task = reflector.watch_task
    return task is not None and not task.done()


def _is_permanent(error: Exception) -> bool:
    return isinstance(error, ApiException) and 400 <= error.status < 500 and error.status not in {408, 429}


def describe_refusal(error: ApiException) -> str:
    """Return a sentence that says why the cluster refused a pod."""
    try:
        why = json.loads(error.body or "")["message"]
    except (ValueError, KeyError, TypeError):
        why = error.reason or f"status {error.status}"
    if "exceeded quota" in why:
        used_up = f"The cluster's quota for workspaces is used up: {pods.brief(why)}."
        return f"{used_up} An admin of the cluster can change that."
    return f"The cluster does not take the notebook's pod: {pods.brief(why)}."

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
from kubernetes_asyncio.client import V1ResourceRequirements
from kubernetes_asyncio.client.rest import ApiException
from kubespawner import KubeSpawner
from traitlets import Dict, Unicode, default

from springtide.spawner import pods, profiles
from springtide.spawner.options import OptionError, options_from_form
from springtide.spawner.quota import BuildQuota, refusal

LOOK_S = 1.0
TELL_BEFORE_S = 2.0
"""The hub gives a start up without a reason; a reason is told so many seconds before."""
AGAIN_AFTER_S = 5.0
LONGEST_WAIT_S = 15.0
STOP_PATIENCE_S = 600.0
WORKSPACE = "springtide.io/workspace"
"""The label of notebooks' pods: their GPUs are reserved, so they are not somebody else's."""


class KubeNotebook(KubeSpawner):
    """What Springtide adds to KubeSpawner about pods.

    Profiles are for projects, what one start has overridden is gone before the next, a watch that ended is started
    again, an ended or lost pod is noticed, and the pending page tells in words what a pod waits for.
    """

    _watching: ClassVar[defaultdict[object, asyncio.Lock]] = defaultdict(asyncio.Lock)
    _unwatched: ClassVar[dict[object, tuple[float, Exception]]] = {}

    _give_up_at = float("inf")
    """When a start has taken too long, by the event loop's clock."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._before: dict[str, Any] = {}

    # ---------- restricted pods, unless an admin says otherwise

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

    async def _known_profiles(self) -> list[profiles.Profile]:
        """All profiles, each with its slug; those for others too."""
        given = self.profile_list
        given = given(self) if callable(given) else given
        given = self._sorted_dict_values(await given if isinstance(given, Awaitable) else given)
        return list(super()._get_initialized_profile_list(given))

    async def check_profile(self) -> set[str]:
        """The names of the options that belong to the chosen profile. Raises what `refusal` makes."""
        try:
            return profiles.check(self.user_options, await self._known_profiles(), self._projects())
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
        known = await current_spawner._known_profiles()  # noqa: SLF001 - of the same class
        return str(current_spawner._render_options_form(known))  # noqa: SLF001 - as KubeSpawner does

    def _apply_overrides(self, spawner_override: dict[str, Any]) -> None:
        for name in spawner_override:
            present = getattr(self, name, None)
            self._before.setdefault(name, present)
            setattr(self, name, deepcopy(present))
        super()._apply_overrides(spawner_override)

    def clear_state(self) -> None:
        """The server is gone, or about to be started afresh: what was overridden for it is as configured again."""
        for name, configured in self._before.items():
            setattr(self, name, configured)
        self._before.clear()
        super().clear_state()

    # ---------- start

    async def _start(self) -> Any:
        try:
            await self._start_watching_pods()
            return await self._start_unless_hopeless(super()._start())
        except ApiException as error:
            raise refusal(cluster_said(error), status=500, reason="cluster") from error
        except (OSError, ClientError) as error:
            said = pods.brief(str(error) or type(error).__name__)
            raise refusal(f"The cluster does not answer: {said}.", status=503, reason="cluster") from error

    async def _start_unless_hopeless(self, start: Coroutine[Any, Any, Any]) -> Any:
        starting = asyncio.ensure_future(start)
        looking = asyncio.ensure_future(self._until_hopeless(_uid(self._pod())))
        left = max(LOOK_S, self._give_up_at - asyncio.get_running_loop().time())
        try:
            await asyncio.wait({starting, looking}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                return starting.result()
            given_up = f"{self._news_of_pod()} It was given up after {left:.0f} s."
            raise refusal(looking.result() if looking.done() else given_up, status=500, reason="pod")
        finally:
            for task in (starting, looking):
                task.cancel()
            await asyncio.gather(starting, looking, return_exceptions=True)

    async def _until_hopeless(self, earlier: str | None) -> str:
        """Wait until the pod, not an ``earlier`` one of its name, cannot start any more; why."""
        while True:
            pod = self._pod()
            if pod is not None and _uid(pod) != earlier and (why := pods.hopeless(pod)):
                return why
            await asyncio.sleep(LOOK_S)

    async def progress(self) -> AsyncIterator[dict[str, Any]]:
        """What the pending page shows: in words, what the pod waits for and its place in line."""
        told = ""
        while not (self._start_future and self._start_future.done()):
            if (news := self._news_of_pod()) != told:
                told = news
                yield {"progress": 50, "message": told}
            await asyncio.sleep(LOOK_S)

    def _news_of_pod(self) -> str:
        pod = self._pod()
        if pod is None:
            return pods.news(None, (), None)
        events = self.event_reflector.resources.values() if self.event_reflector else ()
        place = pods.place_in_line(pod, list(self.pod_reflector.pods.values()))
        return pods.news(pod, pods.events_of(pod, events), place)

    def _pod(self) -> pods.Pod | None:
        found: pods.Pod | None = None
        if self.pod_reflector is not None:
            found = self.pod_reflector.pods.get(f"{self.namespace}/{self.pod_name}")
        return found

    # ---------- stop

    async def stop(self, now: bool = False) -> None:
        """Delete the pod and wait for its end; while the cluster does not answer, try again for ten minutes."""
        deadline = asyncio.get_running_loop().time() + STOP_PATIENCE_S
        wait = LOOK_S
        while True:
            try:
                await super().stop(now)
            except Exception as error:
                pod = self._pod()
                if pod is not None and (why := pods.over(pod, time.time())):
                    self.log.warning("%s: %s", self._log_name, why)
                    return
                if asyncio.get_running_loop().time() > deadline or _for_good(error):
                    raise
                self.log.warning("The pod of %s could not be deleted yet: %s", self._log_name, error)
            else:
                return
            await asyncio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT_S)

    async def poll(self) -> int | None:
        """As KubeSpawner's own; a pod that was evicted or is lost with its node has stopped.

        While the cluster does not answer, nobody knows better: what ran is taken to run.
        """
        try:
            await self._start_watching_pods()
        except Exception as error:  # noqa: BLE001 - whatever keeps us from looking
            self.log.warning("Whether the pod of %s runs cannot be told: %s", self._log_name, error)
            return None
        pod = self._pod()
        if pod is None or (why := pods.over(pod, time.time())) is None:
            status: int | None = await super().poll()
            return status
        self.log.warning("The notebook of %s has stopped. %s", self._log_name, why)
        if pods.ended_by_itself(pod) and self.delete_stopped_pods:
            await self._clear_away()
        return 1

    async def _clear_away(self) -> None:
        try:
            await super().stop(now=True)
        except Exception as error:  # noqa: BLE001 - it has ended; only its name is taken
            self.log.warning("The ended pod of %s could not be deleted: %s", self._log_name, error)

    # ---------- watches

    async def _start_reflector(self, kind: str, reflector_class: Any, replace: bool = False, **kwargs: Any) -> Any:
        """As KubeSpawner's own; a watch that gave up is replaced, and a failed one is never left in its place."""
        key = self._get_reflector_key(kind)
        clock = asyncio.get_running_loop().time
        async with self._watching[key]:
            present = self.reflectors.get(key)
            if present is not None and not replace and _watches(present):
                return present
            failed_at, error = self._unwatched.get(key, (float("-inf"), None))
            if error is not None and clock() - failed_at < AGAIN_AFTER_S:
                raise error
            try:
                made = await super()._start_reflector(kind, reflector_class, replace=True, **kwargs)
            except Exception as error:
                self._unwatched[key] = (clock(), error)
                if present is None:
                    self.reflectors.pop(key, None)
                else:
                    self.reflectors[key] = present
                raise
            self._unwatched.pop(key, None)
            return made


class KubeBuildSpawner(BuildQuota, KubeNotebook):
    """Notebooks as pods on build nodes, each with the GPUs that were reserved for it and no others."""

    gpu_resource = Unicode("nvidia.com/gpu", help="What the cluster calls a GPU.").tag(config=True)
    build_nodes = Dict(
        {"springtide.io/environment": "build"}, help="Labels of the nodes that notebooks run on."
    ).tag(config=True)

    # ---------- what is asked for

    @default("options_from_form")
    def _default_options_from_form(self) -> Any:
        def options(form: dict[str, list[str]]) -> dict[str, object]:
            ours = {name: form[name] for name in ("gpus", *self.other_options) if name in form}
            others = {name: values for name, values in form.items() if name not in ours}
            return {**self._options_from_form(others), **options_from_form(ours)}

        return options

    @default("apply_user_options")
    def _default_apply_user_options(self) -> Any:
        async def check(spawner: KubeBuildSpawner, _options: object) -> None:
            await spawner._check()

        return check

    async def _check(self) -> None:
        self._names_of_profile = await self.check_profile()
        self.requested_gpus()

    _names_of_profile: set[str] = set()  # noqa: RUF012 - replaced, never changed

    @property
    def _other_names(self) -> set[str]:
        return {*self.other_options, *self._names_of_profile}

    async def start(self) -> Any:
        """Check, reserve, then start. Raises what `refusal` makes, saying what kept the pod from starting."""
        self._give_up_at = asyncio.get_running_loop().time() + self.start_timeout - TELL_BEFORE_S
        await self._check()
        return await super().start()

    # ---------- the pod

    async def get_pod_manifest(self) -> Any:
        """KubeSpawner's pod, on build nodes only and with the reserved GPUs; a profile's are replaced."""
        pod = await super().get_pod_manifest()
        plain = self.api.api_client.sanitize_for_serialization
        gpus = self._workspace.gpus if self._workspace is not None else 0
        for container in [*pod.spec.containers, *(pod.spec.init_containers or [])]:
            found = plain(container.resources) or {}
            if container.name == pods.NOTEBOOK:
                container.resources = V1ResourceRequirements(**pods.resources(found, self.gpu_resource, gpus))
            elif self.gpu_resource in {**(found.get("limits") or {}), **(found.get("requests") or {})}:
                container.resources = V1ResourceRequirements(**pods.resources(found, self.gpu_resource, 0))
        pod.spec.node_selector = {**(pod.spec.node_selector or {}), **self.build_nodes}
        if self._workspace is not None and gpus:
            pod.spec.affinity = pods.pinned(plain(pod.spec.affinity) or {}, self._workspace.node)
        pod.metadata.labels = {**(pod.metadata.labels or {}), WORKSPACE: "true"}
        return pod

    def get_env(self) -> dict[str, str]:
        """The spawner's own environment, and the image, in which jobs run too.

        Which GPUs a pod with GPUs sees is told by the node's device plugin.
        """
        env = super().get_env()
        if self._workspace is not None and self._workspace.gpus:
            env = {
                name: env[name] for name in env if name not in {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"}
            }
        return {**env, "SPRINGTIDE_IMAGE": self.image}


def _uid(pod: pods.Pod | None) -> str | None:
    return None if pod is None else pod["metadata"].get("uid")


def _watches(reflector: Any) -> bool:
    task = reflector.watch_task
    return task is not None and not task.done()


def _for_good(error: Exception) -> bool:
    return isinstance(error, ApiException) and 400 <= error.status < 500 and error.status not in {408, 429}


def cluster_said(error: ApiException) -> str:
    """Why the cluster did not take a pod, in its own words."""
    try:
        said = json.loads(error.body or "")["message"]
    except (ValueError, KeyError, TypeError):
        said = error.reason or f"status {error.status}"
    if "exceeded quota" in said:
        said = f"The cluster's quota for notebooks is used up: {pods.brief(said)}."
        return f"{said} An admin of the cluster can change that."
    return f"The cluster does not take the notebook's pod: {pods.brief(said)}."

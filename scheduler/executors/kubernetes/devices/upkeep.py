"""Keeps the ResourceClaimTemplates that pods of jobs and workspaces refer to in the cluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from springtide.scheduler.backoff import Backoff
from springtide.scheduler.executors.kubernetes.devices.templates import claim_template
from springtide.scheduler.executors.kubernetes.objects import names
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.kube import CLAIM_TEMPLATES, Api, ApiError, Informer, Object

log = logging.getLogger(__name__)

FIRST_DELAY = 0.5
LONGEST_DELAY = 30.0


class ClaimTemplates:
    """Creates the templates that are missing, also those that were deleted.

    ``wanted`` returns attribute and model of GPUs, with a number of them, for each template.
    """

    def __init__(
        self, api: Api, settings: KubernetesSettings, wanted: Callable[[], Iterable[tuple[str, str, int]]]
    ) -> None:
        self._api = api
        self._settings = settings
        self._wanted = wanted
        self._known = [
            Informer(
                api,
                CLAIM_TEMPLATES,
                namespace,
                labels=f"{names.POOL}={settings.pool}",
                on_change=self._changed,
            )
            for namespace in settings.claim_namespaces
        ]
        self._incomplete = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Create missing templates, and follow the templates from there. Raises `ApiError`."""
        for informer in self._known:
            await informer.start()
        await self._create_missing()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="claim templates")

    async def close(self) -> None:
        """Stop creating templates; those that are there stay."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for informer in self._known:
            await informer.stop()

    def complete(self) -> None:
        """Create missing templates in the background."""
        self._incomplete.set()

    def _changed(self, before: Object | None, after: Object | None) -> None:  # noqa: ARG002 - only losses matter
        if after is None:
            self.complete()

    async def _run(self) -> None:
        backoff = Backoff(FIRST_DELAY, LONGEST_DELAY)
        while True:
            await self._incomplete.wait()
            self._incomplete.clear()
            try:
                await self._create_missing()
            except ApiError as error:
                log.warning("A ResourceClaimTemplate cannot be created: %s", error)
                self._incomplete.set()
                await asyncio.sleep(backoff.next_delay(at_least=error.retry_after or 0.0))
            except Exception:
                log.exception("The ResourceClaimTemplates could not be compared with the nodes.")
            else:
                backoff.reset()

    async def _create_missing(self) -> None:
        known = {key for informer in self._known for key in informer.items}
        for each in self._wanted():
            for namespace in self._settings.claim_namespaces:
                body = claim_template(*each, self._settings, namespace)
                if (namespace, body["metadata"]["name"]) in known:
                    continue
                try:
                    await self._api.create(CLAIM_TEMPLATES, namespace, body)
                except ApiError as error:
                    if error.reason != "AlreadyExists":
                        raise

"""Connection of the running service to the cluster that jobs run on. Needs the extra ``kubernetes``."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from springtide.hub_extension.cluster.scrapers import Scrapers
from springtide.hub_extension.train_jobs import SPRINGTIDE_JOB, TRAIN_JOB, TrainJobs
from springtide.scheduler.engine import Engine
from springtide.scheduler.executors.base import ExecutorError
from springtide.scheduler.executors.credentials import Credentials
from springtide.scheduler.executors.kubernetes.executor import KubernetesExecutor
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.kube import ApiError, Lease, LeaseLostError, connect
from springtide.scheduler.wording import given

log = logging.getLogger("springtide")


class Cluster:
    """The cluster of ``KUBECONFIG``, or the one that this pod runs in, while this service holds the pool's lease.

    Entering waits until no other service holds the lease, and raises `ExecutorError` if the cluster refuses.
    """

    def __init__(self, settings: KubernetesSettings) -> None:
        self._settings = settings
        kubeconfig = os.environ.get("KUBECONFIG")
        self._api = connect(Path(kubeconfig) if kubeconfig else None)
        holder = f"{socket.gethostname()}-{secrets.token_hex(4)}"
        self._lease = Lease(self._api, settings.namespace, f"springtide-{settings.pool}", holder)

    async def __aenter__(self) -> Self:
        try:
            await self._lease.acquire(self._waiting)
        except ApiError as error:
            await self._api.close()
            raise ExecutorError(f"The cluster does not let this service work: {error}") from error
        except BaseException:
            await self._api.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._lease.release()
        await self._api.close()

    def _waiting(self, holder: str) -> None:
        log.warning("Waiting for the service %s, which is at work on the pool %r", holder, self._settings.pool)

    async def elected(self) -> None:
        """Renew the lease. Raises `LeaseLostError` when another service holds it.

        If the cluster does not answer for a long time, this service continues: no other service can be elected
        meanwhile, and if only this service cannot reach the cluster, the store permits only one writer.
        """
        while True:
            try:
                await self._lease.renew_until_lost()
            except LeaseLostError as error:
                log.warning("%s Is another service at work?", error)
                await self._lease.acquire(self._another)
                log.info("No other service is at work on the pool")

    def _another(self, holder: str) -> None:
        raise LeaseLostError(f"The service {holder} is at work on the pool {given(self._settings.pool)} now.")

    def executor(self, credentials: Credentials | None) -> KubernetesExecutor:
        """Return the executor that runs jobs on this cluster; with ``credentials`` they can use the pool's API."""
        return KubernetesExecutor(self._settings, self._api, credentials=credentials)

    def scrapers(self) -> Scrapers:
        """Return the accounts of the cluster that may read the metrics."""
        return Scrapers(self._api)

    def train_jobs(
        self, engine: Engine, namespaces: Sequence[str], *, policy: str, earlier_policy: str
    ) -> TrainJobs:
        """Return the intake of SpringtideJobs of these namespaces; ``*`` means all namespaces.

        ``policy`` is the admission policy that vouches for the users whom SpringtideJobs name, if there is one,
        ``earlier_policy`` the one for TrainJobs.
        """
        policies = {SPRINGTIDE_JOB: policy, TRAIN_JOB: earlier_policy}
        named = () if "*" in namespaces else tuple(namespaces)
        return TrainJobs(engine, self._api, self._settings.pool, namespaces=named, policies=policies)

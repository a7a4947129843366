"""The trigger that waits for the end of a job, in the triggerer of Airflow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.sdk import BaseHook
from airflow.triggers.base import BaseTrigger, TriggerEvent

from springtide.scheduler.client import Client, PoolError, Unreachable
from springtide.widgets.airflow.connection import DEFAULT_CONNECTION, ENDED, POLL_S, client_of


class JobEndTrigger(BaseTrigger):
    """Fires when a job has ended, with its id and its state, or with an error if its end is unknown.

    ``poll_interval`` is in seconds. A service that does not answer is asked again without limit: jobs outlive it.
    With ``cancel`` the job is cancelled when a user ends the task while it is deferred.
    """

    def __init__(
        self,
        job_id: str,
        conn_id: str = DEFAULT_CONNECTION,
        poll_interval: float = POLL_S,
        *,
        cancel: bool = False,
    ) -> None:
        super().__init__()
        self.job_id = job_id
        self.conn_id = conn_id
        self.poll_interval = poll_interval
        self.cancel = cancel

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and its arguments, by which the triggerer makes this trigger."""
        arguments = {
            "job_id": self.job_id,
            "conn_id": self.conn_id,
            "poll_interval": self.poll_interval,
            "cancel": self.cancel,
        }
        return f"{__name__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event, after the end of the job."""
        pool = await self._client()
        try:
            yield TriggerEvent(await self._end(pool))
        finally:
            pool.close()

    async def on_kill(self) -> None:
        """Cancel the job, if ``cancel`` is set."""
        if not self.cancel:
            return
        with await self._client() as pool:
            await asyncio.to_thread(pool.cancel, self.job_id)

    async def _client(self) -> Client:
        return client_of(await BaseHook.aget_connection(self.conn_id))

    async def _end(self, pool: Client) -> dict[str, str]:
        while True:
            try:
                job = await asyncio.to_thread(pool.job, self.job_id)
            except Unreachable as error:
                self.log.warning("%s", error)
            except PoolError as error:
                return {"job": self.job_id, "error": str(error)}
            else:
                if job.state in ENDED:
                    return {"job": job.id, "state": job.state}
            await asyncio.sleep(self.poll_interval)

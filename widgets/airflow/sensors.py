"""The sensor that waits for the end of a job sent elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowException

from springtide.widgets.airflow.connection import DEFAULT_CONNECTION, ENDED, client, require_success
from springtide.widgets.airflow.triggers import JobEndTrigger

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context


class SpringtideSensor(BaseSensorOperator):
    """Waits until a job has succeeded, and fails with its reason if it failed or was cancelled.

    ``job_id`` may come from XCom: ``"{{ ti.xcom_pull('train', key='job_id') }}"``. It defers, unless
    ``deferrable`` is false; ``poke_interval`` and ``timeout`` are those of any sensor. Ending the task leaves the
    job alone.
    """

    template_fields: Sequence[str] = ("job_id",)

    def __init__(
        self, *, job_id: str, conn_id: str = DEFAULT_CONNECTION, deferrable: bool = True, **keywords: Any
    ) -> None:
        super().__init__(**keywords)
        self.job_id = job_id
        self.conn_id = conn_id
        self.deferrable = deferrable

    def poke(self, context: Context) -> bool:  # noqa: ARG002 - Airflow's signature
        """Return whether the job has succeeded. Raises `AirflowException` if it ended otherwise."""
        with client(self.conn_id) as pool:
            job = pool.job(self.job_id)
            require_success(pool, job)
            return job.state in ENDED

    def execute(self, context: Context) -> Any:
        """Wait for the end of the job."""
        if not self.deferrable:
            return super().execute(context)
        if not self.poke(context):
            trigger = JobEndTrigger(self.job_id, self.conn_id, self.poke_interval)
            self.defer(trigger=trigger, method_name="finish", timeout=timedelta(seconds=self.timeout))
        return None

    def finish(self, context: Context, event: dict[str, str]) -> None:
        """Check how the job ended. Raises `AirflowException` if it did not succeed."""
        if "error" in event:
            raise AirflowException(f"What became of the job {event['job']} is not known. {event['error']}")
        self.poke(context)

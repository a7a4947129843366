"""The operator that sends a job and waits for its end."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from springtide.scheduler.capture import Captured, CaptureError, elsewhere, submission, with_carried
from springtide.scheduler.client import Client
from springtide.widgets.airflow.connection import DEFAULT_CONNECTION, ENDED, POLL_S, client, require_success
from springtide.widgets.airflow.triggers import JobEndTrigger
from springtide.widgets.connection import Connection
from springtide.widgets.errors import OptionError
from springtide.widgets.job import Job as Handle
from springtide.widgets.submission.capture import capture
from springtide.widgets.submission.options import checked

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

JOB_ID = "job_id"
"""Name under which the id of the job is in XCom, from its submission on."""


class SpringtideOperator(BaseOperator):
    """Sends a job to the pool, defers until it has ended, and returns the result of a function.

    ``work`` is a function, a command as text or as a list of words, or the path of a notebook, as for
    `springtide.widgets.Pool.submit`; a function is called with ``op_args`` and ``op_kwargs``. ``options`` are the
    options of the job, such as ``{"gpus": 4, "project": "vision"}``. Scripts, notebooks and modules are read from
    ``directory``, by default that of the DAG's file, which is also the job's working directory. ``python`` is the
    interpreter of functions, notebooks and Python scripts where the job runs; it needs Springtide and, for
    functions, Airflow's version of Python.

    The id of the job is in XCom as ``job_id``. XCom has to be able to hold the result of a function; commands and
    notebooks have none. If the job fails, the task fails with its reason, and Airflow retries it with a new job as
    the task says; after a cancelled job there is no retry. When a user ends the task, the job is cancelled. With
    ``deferrable=False`` the task waits in its worker instead. ``poll_interval`` is in seconds. Commands, arguments
    and options are templates.
    """

    template_fields: Sequence[str] = ("op_args", "op_kwargs", "options")

    def __init__(
        self,
        *,
        work: Callable[..., Any] | str | Sequence[str],
        op_args: Sequence[Any] = (),
        op_kwargs: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        directory: str | None = None,
        python: str = "python3",
        conn_id: str = DEFAULT_CONNECTION,
        deferrable: bool = True,
        poll_interval: float = POLL_S,
        **keywords: Any,
    ) -> None:
        super().__init__(**keywords)
        if not callable(work):
            self.template_fields = ("work", *self.template_fields)
        self.work = work
        self.op_args = op_args
        self.op_kwargs = op_kwargs or {}
        self.options = options or {}
        self.directory = directory
        self.python = python
        self.conn_id = conn_id
        self.deferrable = deferrable
        self.poll_interval = poll_interval
        self._job_id: str | None = None

    def execute(self, context: Context) -> Any:
        """Send the job and wait for its end. Raises `AirflowFailException` if it cannot be sent as it is."""
        task = context["ti"]
        captured, options = self._captured()
        with client(self.conn_id) as pool:
            job = pool.submit(submission(captured, options, _key(task)), captured.packed)
            self._job_id = job.id
            task.xcom_push(JOB_ID, job.id)
            self.log.info("Sent %s as job %s to the pool at %s.", job.name, job.id, pool.url)
            if not self.deferrable:
                while job.state not in ENDED:
                    threading.Event().wait(self.poll_interval)
                    job = pool.job(job.id)
                return self._result(pool, job.id)
        trigger = JobEndTrigger(job.id, self.conn_id, self.poll_interval, cancel=True)
        self.defer(trigger=trigger, method_name="finish", timeout=self.execution_timeout)
        return None

    def finish(self, context: Context, event: dict[str, str]) -> Any:  # noqa: ARG002 - Airflow's signature
        """Return the result of the ended job. Raises `AirflowException` if there is none."""
        if "error" in event:
            raise AirflowException(f"What became of the job {event['job']} is not known. {event['error']}")
        with client(self.conn_id) as pool:
            return self._result(pool, event["job"])

    def on_kill(self) -> None:
        """Cancel the job, when the task is ended in its worker."""
        if self._job_id is not None:
            with client(self.conn_id) as pool:
                pool.cancel(self._job_id)

    def _captured(self) -> tuple[Captured, dict[str, Any]]:
        directory = self.directory or (self.dag.folder if self.has_dag() else None)
        here = elsewhere(Path(directory or Path.cwd()), self.python).for_job(self.options)
        try:
            options = with_carried(checked(self.options), here)
            return capture(self.work, self.op_args, self.op_kwargs, here), options
        except (CaptureError, OptionError) as error:
            raise AirflowFailException(str(error)) from None

    @staticmethod
    def _result(pool: Client, job_id: str) -> Any:
        job = pool.job(job_id)
        require_success(pool, job)
        return Handle(job.id, Connection(pool)).result() if job.kind == "function" else None


def _key(task: Any) -> str:
    """Return the key of one try of a task: if its worker is lost and it runs once more, its job is the same."""
    place = (task.dag_id, task.run_id, task.task_id, str(task.map_index), str(task.try_number))
    return uuid.uuid5(uuid.NAMESPACE_URL, "/".join(place)).hex

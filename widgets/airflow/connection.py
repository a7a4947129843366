"""Connection from a task of Airflow to the pool, and the outcome of the task from the end of its job."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from springtide.scheduler.client import Client
from springtide.scheduler.wire import Job
from springtide.scheduler.wording import given
from springtide.widgets.connection import Connection
from springtide.widgets.job import Job as Handle

DEFAULT_CONNECTION = "springtide_default"
POLL_S = 5.0
"""Default interval of checks whether a job has ended, in seconds."""
PATIENCE_S = 60.0
"""Time for which a request is repeated while the service does not answer, in seconds: a restart takes less."""
ENDED = frozenset({"succeeded", "failed", "cancelled"})


def client_of(connection: Any) -> Client:
    """Return a client of the pool for a connection of Airflow.

    Raises `AirflowFailException` if the connection has no host.
    """
    if not connection.host:
        raise AirflowFailException(
            f"The connection {given(connection.conn_id)} has no host. Give it the address of the pool's service, "
            "such as https://hub.example.org/services/springtide, and a token of the hub as its password."
        )
    return Client(connection.host, connection.password, patience=PATIENCE_S)


def client(conn_id: str) -> Client:
    """Return a client of the pool for the connection with this id."""
    return client_of(BaseHook.get_connection(conn_id))


def require_success(pool: Client, job: Job) -> None:
    """Raise `AirflowException` with the reason if a job failed, `AirflowFailException` if it was cancelled.

    Airflow retries a failed task as the task says, but not one whose job was cancelled.
    """
    if job.state == "cancelled":
        raise AirflowFailException(f"The job {job.name} ({job.id}) was cancelled.")
    if job.state == "failed":
        printed = Handle(job.id, Connection(pool)).traceback
        raise AirflowException(f"The job {job.name} ({job.id}) failed. {job.error}\n{printed}".rstrip())

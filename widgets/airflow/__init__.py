"""Jobs of the pool as tasks of Apache Airflow: an operator that sends a job, and a sensor that waits for one.

Both defer until the job has ended, so a task that waits takes no slot of a worker. They find the pool by a
connection of Airflow, by default `springtide_default`: its host is the address of the service, such as
``https://hub.example.org/services/springtide``, its password a token of the hub. A job runs as the token's owner.
"""

from __future__ import annotations

from springtide.widgets.airflow.operators import SpringtideOperator
from springtide.widgets.airflow.sensors import SpringtideSensor
from springtide.widgets.airflow.triggers import JobEndTrigger

__all__ = ["JobEndTrigger", "SpringtideOperator", "SpringtideSensor"]

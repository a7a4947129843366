"""Runs DAGs in Airflow's own environment: ``python airflow_runs.py FOLDER JOB``.

Ends a deferred task that waits for the job of this id, as the triggerer does. Then runs all DAGs of the folder,
and prints what became of each task as one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import suppress

from airflow.dag_processing.dagbag import DagBag
from airflow.jobs.triggerer_job_runner import TriggerRunner
from airflow.models.xcom import XComModel
from airflow.triggers.base import TriggerEvent
from airflow.utils.db import initdb
from airflow.utils.session import create_session

from springtide.widgets.airflow import JobEndTrigger


def main(folder: str, job: str) -> None:
    initdb()
    asyncio.run(end_deferred(job))
    bag = DagBag(folder, load_op_links=False)
    assert not bag.import_errors, bag.import_errors
    tasks = {}
    for dag in bag.dags.values():
        run = dag.test()
        with create_session() as session:
            found = session.query(XComModel).filter_by(run_id=run.run_id, dag_id=dag.dag_id, key="return_value")
            values = {each.task_id: XComModel.deserialize_value(each) for each in found}
        for task in run.get_task_instances():
            tasks[task.task_id] = {"state": task.state, "result": values.get(task.task_id)}
    print(json.dumps(tasks))


async def end_deferred(job: str) -> None:
    """Let the real runner of triggers wait for a job, and end its task as a person does."""
    runner, begun = TriggerRunner(), asyncio.Event()

    class Waiting(JobEndTrigger):
        async def run(self) -> AsyncIterator[TriggerEvent]:
            begun.set()
            async for event in super().run():
                yield event

    waiting = asyncio.create_task(runner.run_trigger(1, Waiting(job, cancel=True), None, None))
    runner.triggers[1] = {"task": waiting, "is_watcher": False, "name": "waiting", "events": 0}
    await begun.wait()
    runner.to_cancel.append(1)
    await runner.cancel_triggers()
    with suppress(asyncio.CancelledError):
        await waiting


if __name__ == "__main__":
    main(*sys.argv[1:])

"""When and how an attempt of pods started and ended, by what kubelets and supervisors tell."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from springtide.scheduler.executors.base import AttemptKey, ExitKind
from springtide.scheduler.executors.kubernetes.attempts import Attempt
from springtide.scheduler.executors.kubernetes.objects.api_types import Pod

END = 1_795_505_501.94


def test_an_attempt_that_ended_at_once_did_not_start_after_its_end() -> None:
    """A kubelet tells whole seconds of its own, the supervisor in the pod the exact time of the end."""
    message = msgspec.json.encode({"kind": "exited", "code": 0, "at": END}).decode()
    second = datetime.fromtimestamp(1_795_505_502, UTC)
    terminated = {"startedAt": second, "finishedAt": second, "exitCode": 0, "message": message}
    status = {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": terminated}}]}
    pod = msgspec.convert({"spec": {"nodeName": "real"}, "status": status}, Pod)
    attempt = Attempt(AttemptKey("job", 1), 1, grace=30.0)

    attempt.observe_pod(0, pod, None)
    attempt.update_phase()
    attempt.conclude(END + 5, complete=False)

    assert attempt.status.exit is not None
    assert (attempt.status.started, attempt.status.exit.at) == (END, END)


@pytest.mark.parametrize(("complete", "kind"), [(False, ExitKind.LOST), (True, ExitKind.EXITED)])
def test_an_evicted_worker_that_ends_with_0_is_lost_unless_its_work_is_complete(
    *, complete: bool, kind: ExitKind
) -> None:
    message = msgspec.json.encode({"kind": "exited", "code": 0, "at": END}).decode()
    ended = datetime.fromtimestamp(END, UTC)
    terminated = {"startedAt": ended, "finishedAt": ended, "exitCode": 0, "message": message}
    target = {"type": "DisruptionTarget", "status": "True", "message": "Eviction API: evicting"}
    leaving = {"metadata": {"deletionTimestamp": ended}, "spec": {"nodeName": "real"}}
    running = {"phase": "Running", "conditions": [target]}
    gone = {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": terminated}}]}
    attempt = Attempt(AttemptKey("job", 1), 1, grace=30.0)

    attempt.observe_pod(0, msgspec.convert({**leaving, "status": running}, Pod), None)
    attempt.observe_pod(0, msgspec.convert({**leaving, "status": gone}, Pod), None)
    attempt.conclude(END + 5, complete=complete)

    assert attempt.status.exit is not None
    assert (attempt.status.exit.kind, attempt.status.exit.complete) == (kind, complete)

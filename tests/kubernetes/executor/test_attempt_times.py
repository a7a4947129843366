"""When an attempt of pods started and ended, by what kubelets and supervisors tell."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from springtide.scheduler.executors.base import AttemptKey
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
    attempt.conclude(END + 5)

    assert attempt.status.exit is not None
    assert (attempt.status.started, attempt.status.exit.at) == (END, END)

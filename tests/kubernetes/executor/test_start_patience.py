"""How long an attempt waits for what keeps its pods from starting."""

from __future__ import annotations

import msgspec
import pytest

from springtide.scheduler.executors.base import AttemptKey
from springtide.scheduler.executors.kubernetes.attempts import Attempt
from springtide.scheduler.executors.kubernetes.monitor import SCAN_INTERVAL
from springtide.scheduler.executors.kubernetes.objects.api_types import Pod
from springtide.scheduler.executors.kubernetes.start_failures import start_failure

THIRD_PULL = 10.0 + 20.0
"""When a kubelet pulls an image for the third time, in seconds after the first: its waits double."""
SOON = 60.0


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff"])
def test_a_kubelet_has_three_tries_to_pull_an_image_and_the_job_says_within_a_minute_why_it_waits(
    reason: str,
) -> None:
    waiting = {"reason": reason, "message": "rpc error: code = Unavailable desc = registry away"}
    status = {"phase": "Pending", "containerStatuses": [{"state": {"waiting": waiting}}]}
    pod = msgspec.convert({"spec": {"nodeName": "real"}, "status": status}, Pod)
    attempt = Attempt(AttemptKey("job", 1), 1, grace=30.0)
    attempt.observe_pod(0, pod, None)

    assert start_failure(attempt, 0.0) is None
    assert start_failure(attempt, THIRD_PULL + SCAN_INTERVAL) is None
    verdict = start_failure(attempt, SOON - 2 * SCAN_INTERVAL)
    assert verdict is not None
    assert "The image of the job cannot be pulled" in verdict.detail

"""Programs that break on a GPU or keep it: what the pool says of them; the next job finds the GPU free."""

from __future__ import annotations

import json

import pytest
from hubs.gpu_desk import GIB, Desk, asked, computing

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("real-gpus"), pytest.mark.timeout(600)]


def all_of_it_is_free(desk: Desk) -> None:
    found = desk.sees(desk.submit("look.py", gpus=len(asked("uuid"))))
    assert found["free"] > found["total"] - 2 * GIB


def test_one_that_takes_no_notice_of_a_pause_gives_the_gpu_back_with_all_its_processes(
    susan: Desk, joe: Desk
) -> None:
    borrower = joe.submit("deaf.py")
    joe.says(borrower, "holds 40 GiB")
    joe.says(borrower, "holds 1 GiB")
    assert len(computing()) == 2
    all_of_it_is_free(susan)
    joe("cancel", borrower)
    joe.reached(borrower, "cancelled")
    assert not computing()


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("too_large", "OutOfMemoryError: CUDA out of memory."),
        ("out_of_range", "device-side assert triggered"),
        ("stray_write", "illegal memory access"),
    ],
)
def test_one_that_breaks_says_so_and_the_next_job_gets_the_gpu(susan: Desk, how: str, said: str) -> None:
    job = susan.submit("broken.py", how)
    susan.reached(job, "failed")
    shown = json.dumps(susan("show", job))
    assert said in shown
    all_of_it_is_free(susan)
    assert not any(gpu["drain"] for node in susan.get("/pool")["nodes"] for gpu in node["gpus"])


def test_one_without_gpus_sees_none(susan: Desk) -> None:
    assert susan.sees(susan.submit("without.py", gpus=0)) == {"visible": "", "count": 0}

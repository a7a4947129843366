"""Forks of jobs from a notebook."""

from __future__ import annotations

import pytest

from springtide.training import current_job
from springtide.widgets.connection import PoolError
from springtide.widgets.errors import OptionError

TRAIN = """
def train(rate, epochs=3, *, gpus=1):
    from springtide.training import current_job

    job = current_job()
    found = job.restore()
    done, seen = found.state if found else (0, [])
    for epoch in range(done, epochs):
        seen = [*seen, rate]
        job.report(step=epoch + 1, loss=rate)
        job.save((epoch + 1, seen), step=epoch + 1)
    return seen
"""


@pytest.fixture
def train(workdir):
    (workdir / "own.py").write_text(TRAIN)
    namespace: dict = {"__name__": "own"}
    exec(compile(TRAIN, str(workdir / "own.py"), "exec"), namespace)
    return namespace["train"]


def test_a_function_continues_from_a_step_with_another_argument(pool, train):
    first = pool.submit(train, 0.1, name="first", kwargs={"epochs": 4})
    assert first.result() == [0.1] * 4
    fork = first.fork(step=2, rate=0.5, epochs=5)
    assert fork.result() == [0.1, 0.1, 0.5, 0.5, 0.5]
    assert fork.info.rerun.text == "Fork of “first” at step 2: rate 0.1 → 0.5, epochs 4 → 5."
    assert fork.arguments == {"rate": 0.5, "epochs": 5, "gpus": 1}
    listed = pool.jobs(search=fork.id)
    assert "first, from step 2" in str(listed)
    row = listed.to_frame().iloc[0]
    assert (row["forked_from"], row["fork_step"], row["generation"]) == (first.id, 2, None)
    once_more = fork.rerun(arguments={"epochs": 3})
    assert once_more.result() == [0.1, 0.1, 0.5]
    assert once_more.info.rerun.text == "Fork of “first” at step 2: rate 0.1 → 0.5, epochs 4 → 3."
    assert fork.rerun(arguments={"epochs": 1}, from_start=True).result() == [0.5]
    again = fork.fork(step=4, rate=0.9)
    assert again.result() == [0.1, 0.1, 0.5, 0.5, 0.9]
    assert "rate 0.5 → 0.9" in again.info.rerun.text
    assert again.checkpoints()[0].step == 5
    assert "loss=0.9" in repr(again.checkpoints())
    assert [each.name for each in again.delete_checkpoints("00000005")][:1] == ["00000004"]


def test_other_code_continues_with_arguments_of_its_own(pool, train):
    first = pool.submit(train, 0.1, kwargs={"epochs": 2})
    first.wait()

    def other(word):
        return word, current_job().restore().step

    assert pool.fork(first, other, "has", step=1).result() == ("has", 1)


def test_arguments_that_the_function_does_not_have_are_refused_before_anything_is_sent(pool, train):
    first = pool.submit(train, 0.1, kwargs={"epochs": 1})
    first.wait()
    before = len(pool.jobs())
    with pytest.raises(PoolError, match=r"“lr” is no argument of this job\. Known are: rate, epochs, gpus"):
        first.fork(lr=1)
    with pytest.raises(OptionError, match="“gpus” is an option of a job and a parameter of its function"):
        first.fork(gpus=2)
    with pytest.raises(OptionError, match="The argument “rate” is given twice: in kwargs and as a keyword"):
        first.fork(kwargs={"rate": 0.2}, rate=0.3)
    with pytest.raises(PoolError, match=r"rate was “0\.1”, a number; “abc” is a text"):
        first.fork(rate="abc")
    with pytest.raises(OptionError, match="The argument “rate” is an object"):
        first.fork(rate=object())
    assert len(pool.jobs()) == before

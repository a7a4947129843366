"""A member of a population trains up to the end of its generation, whatever ends its attempts before."""

from __future__ import annotations

import json
import pickle
import signal
from typing import Any

import pytest
from jobs.payloads import payload_of

from springtide.training import AGAIN
from springtide.training.job import _LOOK_EVERY

RUN = ("-m", "springtide.training.run", "function")
LOOP = """
def f(rate, steps=6, kill=None, order="report", nan=None):
    import os, signal
    from springtide.training import current_job
    job = current_job()
    found = job.restore()
    total, done = found.state if found else (0.0, 0)
    print("from", done, flush=True)
    for step in range(done + 1, steps + 1):
        total += rate
        if order == "save":
            job.save((total, step), step=step)
        job.report(step=step, of=steps, loss=float("nan") if step == nan else total)
        if order == "report":
            job.save((total, step), step=step)
        if step == kill and job.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if job.should_pause():
            job.exit_for_pause()
    return total
"""
EPOCHS = """
def f(rate):
    from springtide.training import current_job
    job, state = current_job(), [0.0]
    def save(directory):
        (directory / "state").write_text(repr(state))
    def load(directory):
        state[:] = eval((directory / "state").read_text())
    for epoch in job.epochs(6, save=save, load=load, every=100):
        state[0] += rate
        job.report(step=epoch + 1, of=6, loss=state[0])
    return state[0]
"""


def asked_at(step: int) -> str:
    """Return the loop that is asked to pause at a step, and looks for that when it may look again."""
    asks = "open(os.environ['SPRINGTIDE_PAUSE_FILE'], 'w').close()"
    ask = f"if step == {step}: {asks}; time.sleep({2 * _LOOK_EVERY})"
    text = LOOP.replace("        if job.should_pause", f"        {ask}\n        if job.should_pause")
    return text.replace("import os, signal", "import os, signal, time")


def by_value(text: str) -> Any:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(text, namespace)
    return namespace["f"]


def run(place, text: str = LOOP, generation: int = 1, *, attempt: int = 1, **kwargs: Any) -> tuple[int, str, str]:
    code = place.root / "code"
    code.mkdir(exist_ok=True)
    call = {"function": by_value(text), "args": (), "kwargs": {"rate": None, **kwargs}, "metric": "loss"}
    (code / "payload.pkl").write_bytes(payload_of(call))
    variables = {
        "SPRINGTIDE_SWEEP": "sweep",
        "SPRINGTIDE_TRIAL": "0",
        "SPRINGTIDE_GENERATION": str(generation),
        "SPRINGTIDE_GENERATIONS": "3",
        "SPRINGTIDE_UNTIL_STEP": str(2.0 * generation),
    }
    return place.run(*RUN, str(code / "payload.pkl"), "rate=0.25", attempt=attempt, **variables)


def value(place) -> Any:
    return [line["trial"] for line in place.reports() if "trial" in line][-1]["value"]


def milestones(place) -> list[str]:
    return [line["milestone"] for line in place.reports() if "milestone" in line]


@pytest.mark.parametrize("text", [LOOP, EPOCHS], ids=["loop", "epochs"])
def test_a_member_ends_each_generation_with_a_checkpoint_and_the_last_one_with_its_result(place, text) -> None:
    for generation in (1, 2, 3):
        code, _, err = run(place, text, generation)
        assert code == 0, err
        assert value(place) == 0.5 * generation
        assert "done" in milestones(place) or generation == 3
        newest = max(place.checkpoints.iterdir())
        assert json.loads((newest / "manifest.json").read_text())["step"] == 2 * generation
        assert (place.output / "result.pkl").exists() == (generation == 3)
    assert pickle.loads((place.output / "result.pkl").read_bytes()) == 1.5


def test_a_pause_before_the_end_of_a_generation_is_one_as_ever(place) -> None:
    place.pause_file.touch()
    code, _, err = run(place)
    assert code == AGAIN, err
    place.pause_file.unlink()
    code, out, err = run(place, attempt=2)
    assert (code, out) == (0, "from 1\n"), err
    assert value(place) == 0.5


def test_a_pause_at_the_end_of_a_generation_is_its_end(place) -> None:
    text = asked_at(2)
    code, _, err = run(place, text)
    assert code == 0, err
    assert "done" in milestones(place)
    assert value(place) == 0.5


def test_a_pause_at_the_last_step_of_all_loses_no_result(place) -> None:
    text = asked_at(6)
    code, _, err = run(place, text, 3, nan=6)
    assert code == AGAIN, err
    place.pause_file.unlink()
    code, out, err = run(place, text, 3, attempt=2, nan=6)
    assert (code, out) == (0, "from 6\n"), err
    assert pickle.loads((place.output / "result.pkl").read_bytes()) == 1.5
    assert value(place) is None, "as it was reported before the pause"


def test_a_member_that_was_killed_after_its_last_checkpoint_trains_no_further(place) -> None:
    code, _, _ = run(place, kill=2)
    assert code == -signal.SIGKILL
    code, out, err = run(place, attempt=2)
    assert (code, out) == (0, ""), err
    assert value(place) == 0.5
    assert "done" in milestones(place)
    assert len(list(place.checkpoints.iterdir())) == 2


def test_a_value_that_is_not_finite_stays_none_after_a_kill(place) -> None:
    run(place, kill=2, nan=2)
    code, _, err = run(place, attempt=2)
    assert code == 0, err
    assert value(place) is None


REPORT = 'job.report(step=step, of=steps, loss=float("nan") if step == nan else total)'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("job.report(step=step, of=steps, other=1)", "job.report(step=step, loss=total)"),
        ("job.report(step=step, loss=total)", "job.report(step=step, of=steps, other=1)"),
        ("job.report(step=step, of=steps, loss=9)", "job.report(step=step, loss=total)"),
        ("job.report(step=step, of=steps, other=1)", "job.report(loss=total)"),
        ("job.report(step=step, of=steps, loss=total)", 'job.report(step=step, loss=float("nan"))'),
    ],
)
def test_the_value_of_a_generation_is_the_last_finite_one_of_its_step_in_whichever_report(
    place, before, after
) -> None:
    text = LOOP.replace(REPORT, f"{before}; {after}")
    for generation in (1, 2, 3):
        code, _, err = run(place, text, generation)
        assert code == 0, err
        assert value(place) == 0.5 * generation
        assert (place.output / "result.pkl").exists() == (generation == 3), "the last one is left to return"


def test_a_value_of_a_step_before_is_not_that_of_the_generation(place) -> None:
    text = LOOP.replace(
        REPORT, 'job.report(step=step, of=steps, **({"loss": total} if step == 1 else {"other": 1}))'
    )
    code, _, err = run(place, text)
    assert code == 0, err
    assert value(place) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LOOP.replace('order="report"', 'order="save"'), "saved no checkpoint at step 2, where generation 1 of 3"),
        (LOOP.replace("if job.should_pause()", "if False"), "went past step 2, where generation 1 of 3 ends."),
        (
            LOOP.replace("steps=6", "steps=1"),
            "returned in generation 1 of 3, which ends at step 2. Train for 6 steps",
        ),
        (
            EPOCHS.replace("(6,", "(2,").replace("of=6", "of=2"),
            "returned in generation 1 of 3, which ends at step 2",
        ),
    ],
)
def test_a_training_that_no_member_can_continue_from_fails_with_what_to_change(place, text, words) -> None:
    code, _, err = run(place, text)
    assert code == 1
    error = json.loads((place.output / "error.json").read_text())
    assert error["type"] == "GenerationError"
    assert words in error["message"]
    assert error["message"] in err


def test_outside_a_population_a_checkpoint_notes_no_generation(place) -> None:
    code, _, err = place.run("-c", "from springtide.training import current_job; current_job().save(1, step=1)")
    assert code == 0, err
    assert "generation" not in json.loads((place.checkpoints / "00000001/manifest.json").read_text())

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from patience import PATIENCE_S

from springtide.training import AGAIN
from springtide.training.job import Job

LOOP = """
from springtide.training import current_job
import time
job = current_job()
found = job.restore()
done = int(found.step) if found else 0
print("from", done, flush=True)
for step in range(done + 1, 100000):
    time.sleep(0.002)
    job.report(step=step, of=100000, loss=1 / step)
    if job.should_pause():
        job.save({"step": step}, step=step)
        job.exit_for_pause()
"""


@pytest.mark.parametrize("way", ["pause file", "SIGTERM"])
def test_a_job_that_is_asked_saves_and_says_run_me_again(place, way: str) -> None:
    process = place.start("-c", LOOP)
    assert process.stdout.readline() == "from 0\n"
    if way == "SIGTERM":
        process.send_signal(signal.SIGTERM)
    else:
        place.pause_file.touch()
    assert process.wait(timeout=PATIENCE_S) == AGAIN
    saved = place.reports()[-1]
    assert saved["saved"] is True
    place.pause_file.unlink(missing_ok=True)
    second = place.start("-c", LOOP, attempt=2)
    assert second.stdout.readline() == f"from {saved['step']:.0f}\n"


def test_a_job_that_leaves_is_not_ended_by_a_sigterm_that_comes_late(place) -> None:
    """The pause file is seen first; Python itself forgets the handlers of signals while it ends."""
    text = """
import os, signal
from springtide.training import current_job
class Last:
    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.SIGTERM):
        kill(pid, number)
last = Last()
current_job().exit_for_pause()
"""
    assert place.run("-c", text) == (AGAIN, "", "")


def test_children_of_a_job_end_by_sigterm_as_ever(place) -> None:
    text = """
import multiprocessing, os, signal, time
from springtide.training import current_job
job = current_job()
pool = multiprocessing.get_context("fork").Pool(2)
pool.map(abs, [1, 2])
pool.terminate()
pool.join()
child = os.fork()
if child == 0:
    time.sleep(600)
os.kill(child, signal.SIGTERM)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), job.should_pause())
os.kill(os.getpid(), signal.SIGTERM)
print(job.should_pause())
"""
    assert place.run("-c", text) == (0, "-15 False\nTrue\n", "")


def test_a_scripts_own_way_with_sigterm_is_left_alone(place) -> None:
    text = """
import signal
mine = lambda *_: None
signal.signal(signal.SIGTERM, mine)
from springtide.training import current_job
current_job()
print(signal.getsignal(signal.SIGTERM) is mine)
"""
    assert place.run("-c", text)[1] == "True\n"


def test_outside_a_pool_everything_works_and_nothing_is_asked(tmp_path: Path, place) -> None:
    script = tmp_path / "train_digits.py"
    script.write_text("""
import os, signal
for name in list(os.environ):
    if name.startswith("SPRINGTIDE"):
        del os.environ[name]
from springtide.training import current_job
job = current_job()
print(job is current_job(), job.in_pool, job.name, job.should_pause(), job.restore())
print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)
job.report(step=1, of=2, loss=0.5)
job.save({"step": 1}, step=1)
print(job.restore().state)
""")
    code, out, err = place.run(str(script))
    assert (code, err) == (0, "")
    assert out == "True False train_digits False None\nTrue\n{'step': 1}\n"
    assert (tmp_path / "checkpoints" / "train_digits" / "00000001" / "manifest.json").exists()
    assert place.reports() == []


def test_the_directory_of_checkpoints_can_be_chosen_outside_a_pool(tmp_path: Path) -> None:
    job = Job({}, tmp_path / "here", keep=1)
    job.save(1, 1)
    job.save(2, 2)
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["00000002"]


def test_a_pause_that_was_asked_for_stays_so(place) -> None:
    job = Job(place.environment())
    assert not job.should_pause()
    place.pause_file.touch()
    place.until(job.should_pause, "the pause file to be seen")
    place.pause_file.unlink()
    assert job.should_pause()


EPOCHS = """
import json, random, sys, time
from springtide.training import current_job
job = current_job()
state = {"w": 0.0}
def save(directory):
    (directory / "w.json").write_text(json.dumps([state, random.getstate()]))
def load(directory):
    found, rng = json.loads((directory / "w.json").read_text())
    state.update(found)
    random.setstate((rng[0], tuple(rng[1]), rng[2]))
random.seed(7)
for epoch in job.epochs(60, save=save, load=load, every=20):
    state["w"] = state["w"] * 0.9 + random.random()
    job.report(step=epoch + 1, of=60, w=state["w"])
    if len(sys.argv) > 1 and epoch == int(sys.argv[1]):
        from pathlib import Path
        Path(sys.argv[2]).touch()
        time.sleep(0.02)
print(state["w"])
"""


def test_a_training_that_was_paused_ends_like_one_that_was_not(tmp_path: Path, place) -> None:
    script = tmp_path / "epochs.py"
    script.write_text(EPOCHS)
    code, whole, _ = place.run(str(script), SPRINGTIDE_CHECKPOINT_DIR=str(tmp_path / "whole"))
    assert code == 0
    for attempt, epoch in ((1, 7), (2, 33)):
        assert place.run(str(script), str(epoch), str(place.pause_file), attempt=attempt)[0] == AGAIN
        place.pause_file.unlink()
    assert place.run(str(script), attempt=3) == (0, whole, "")
    assert [(each["attempt"], each["step"]) for each in place.reports() if each["saved"]][-5:] == [
        (1, 8),
        (2, 20),
        (2, 34),
        (3, 40),
        (3, 60),
    ]


def test_a_pause_in_the_last_epoch_is_success(tmp_path: Path, place) -> None:
    script = tmp_path / "epochs.py"
    script.write_text(EPOCHS)
    assert place.run(str(script), "59", str(place.pause_file))[0] == 0


def milestones(place) -> list[str]:
    return [each["milestone"] for each in place.reports() if "milestone" in each]


def test_a_job_says_that_it_is_done(place) -> None:
    text = "from springtide.training import current_job\ncurrent_job().done()"
    assert place.run("-c", text) == (0, "", "")
    assert place.run("-c", text, rank=1, world=2) == (0, "", "")
    assert milestones(place) == ["done", "done"]


def test_outside_a_pool_a_job_that_is_done_tells_nobody(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Job({}).done()
    assert list(tmp_path.iterdir()) == []


def test_a_job_reports_once_that_it_has_learnt_of_a_pause(place) -> None:
    place.pause_file.touch()
    text = """
from springtide.training import current_job
job = current_job()
print(job.should_pause(), job.should_pause(), job.pause_asked())
"""
    assert place.run("-c", text) == (0, "True True True\n", "")
    assert milestones(place) == ["pause-seen"]


def test_an_epoch_that_was_the_last_one_anyway_is_no_pause(place) -> None:
    place.pause_file.touch()
    text = """
from springtide.training import current_job
for epoch in current_job().epochs(1, save=lambda path: None, load=lambda path: None):
    pass
"""
    assert place.run("-c", text) == (0, "", "")
    assert milestones(place) == []

"""A project sent from a terminal to a real pool: the job runs in a copy, over pauses, and data stays in place."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hubs.hub_people import until
from programs.terminal import Run

pytestmark = pytest.mark.xdist_group("hub-command")

TRAIN = """
import pathlib, signal, sys, time
from lib.words import WORD

here = pathlib.Path(__file__).resolve().parent
print(WORD, (here.parent / "conf.yaml").read_text(), (here.parent / "data" / "x").read_text(), flush=True)
last = pathlib.Path("last.ckpt")
done = int(last.read_text()) if last.exists() else 0
print("from", done, flush=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
while done < 3:
    done += 1
    last.write_text(str(done))
    if done == 2:
        print("waits", flush=True)
        time.sleep(600)
"""


@pytest.fixture
def study(directory: Path) -> Path:
    """A project in the directory of the terminal, with a script that finds everything by its own place."""
    files = {"pyproject.toml": "", "lib/words.py": "WORD = 'sent'", "conf.yaml": "rate: 1", "data/x": "data"}
    files["scripts/train.py"] = "import sys; sys.path.insert(0, '.')\n" + TRAIN
    for name, text in files.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(text)
    return directory


def test_a_job_keeps_its_project_and_its_checkpoint_over_a_pause(run: Run, study: Path) -> None:
    sent = run("submit", "--json", "--gpus", "0", "--", "python", "scripts/train.py")
    assert sent.code == 0, sent.err
    assert "The job runs in its own copy of" in sent.err
    assert "Read and written in place: data/" in sent.err
    job = sent.json["id"]
    until("its second step", lambda: "waits" in run("logs", job).out)
    (study / "conf.yaml").write_text("rate: 2")
    (study / "lib" / "words.py").write_text("WORD = 'edited'")
    (study / "data" / "x").write_text("new data")
    run("pause", job)
    until("the pause", lambda: run("show", job, "--json").json["state"] == "paused")
    assert re.search(r"resumes from last\.ckpt \(Lightning, 1 B, ", run("show", job).out)
    run("resume", job)
    done = run("wait", job)
    assert done.code == 0, done.err
    lines = [line for line in run("logs", job).out.splitlines() if line.startswith(("sent", "from"))]
    assert lines == ["sent rate: 1 data", "from 0", "sent rate: 1 new data", "from 2"]
    assert not (study / "last.ckpt").exists()
    shown = run("show", job).out
    assert f"{study}, 4 files copied" in shown
    assert "data/" in shown


def test_a_job_in_place_reads_and_writes_the_project_itself(run: Run, study: Path) -> None:
    (study / "write.py").write_text("open('here', 'w').close()")
    study.chmod(0o777)  # jobs run as the account of their user
    done = run("submit", "--in-place", "--gpus", "0", "--follow", "--", "python", "write.py")
    assert done.code == 0, done.err
    assert f"The job runs in {study} itself" in done.err
    assert (study / "here").exists()
    job = run("jobs", "--json").json["items"][0]["id"]
    assert f"Runs in place: in {study} itself, with the files as they are" in run("show", job).out
    assert "Runs in place: in" in run("submit", "--in-place", "--dry-run", "--", "python", "write.py").out


def test_too_much_code_is_refused_before_anything_is_sent(run: Run, study: Path) -> None:
    (study / "many").mkdir()
    for number in range(201):
        os.truncate(os.open(study / "many" / f"{number}.py", os.O_CREAT | os.O_RDWR), 2_000_000)
    done = run("submit", "--", "python", "scripts/train.py")
    assert done.code == 2
    assert "Most are in many (201 files" in done.err
    assert "/many/" in done.err


def test_a_folder_is_no_program(run: Run, study: Path) -> None:
    for words in (["--dry-run"], []):
        done = run("submit", *words, "--", str(study))
        assert done.code == 2
        assert f"There is no program “{study}” that can be run." in done.err

"""Jobs from a terminal, against a real pool."""

from __future__ import annotations

import csv
import io
import re
import subprocess
import venv
from pathlib import Path

import nbformat
import pytest
from hubs.hub_people import Hub, until
from nbformat.v4 import new_code_cell, new_notebook
from programs.terminal import Run, called, springtide

pytestmark = pytest.mark.xdist_group("hub-command")

LONG = """
import time
from springtide.training import current_job

job = current_job()
print("started", flush=True)
for step in range(6000):
    job.report(step=step, of=6000)
    if job.should_pause():
        raise SystemExit(75)
    time.sleep(0.05)
"""


def state_of(run: Run, job: str) -> str:
    found = [item for item in run("jobs", "--json").json["items"] if item["id"] == job]
    return str(found[0]["state"])


def test_a_job_runs_with_the_code_that_was_there_and_is_followed_to_its_end(run: Run, directory: Path) -> None:
    (directory / "helper.py").write_text("WORD = 'tide'\n")
    (directory / "train.py").write_text("import helper, sys; print(helper.WORD, *sys.argv[1:])\n")
    done = run(
        "submit",
        "--gpus",
        "2",
        "--time-limit",
        "10m",
        "--no-rotate",
        "--follow",
        "--",
        "python",
        "train.py",
        "--epochs",
        "3",
    )
    assert done.code == 0, done.err
    assert done.out == "tide --epochs 3\n"
    assert "succeeded" in done.err


def test_an_environment_without_springtide_has_the_training_library_in_a_job(run: Run, directory: Path) -> None:
    venv.create(directory / "bare", symlinks=True)
    python = str(directory / "bare/bin/python")
    looked = subprocess.run([python, "-c", "import springtide.training"], check=False, capture_output=True)
    assert looked.returncode == 1
    text = "from springtide.training import current_job\nprint(current_job().should_pause())\n"
    (directory / "train.py").write_text(text)
    done = run("submit", "--follow", "--", python, "train.py")
    assert done.code == 0, done.out + done.err
    assert done.out == "False\n"
    assert "Missing" not in done.err


def test_a_notebook_has_parameters_as_papermill_takes_them(run: Run, directory: Path) -> None:
    cells = [new_code_cell("lr = 1", metadata={"tags": ["parameters"]}), new_code_cell("print('rate', lr * 2)")]
    nbformat.write(new_notebook(cells=cells), directory / "study.ipynb")
    done = run("submit", "--follow", "study.ipynb", "-p", "lr", "0.25")
    assert (done.code, "rate 0.5" in done.out) == (0, True), done.out + done.err
    assert "Parameters: lr = 0.25." in done.err
    refused = run("submit", "study.ipynb", "-p", "rate", "1")
    assert refused.code == 2
    assert "“rate” is no parameter of study.ipynb. Its parameters are lr." in refused.err


def test_a_notebook_whose_kernel_is_not_there_is_not_sent(run: Run, directory: Path) -> None:
    spec = {"name": "missing", "display_name": "Missing", "language": "python"}
    nbformat.write(new_notebook(metadata={"kernelspec": spec}), directory / "study.ipynb")
    for words in (["--dry-run"], []):
        refused = run("submit", *words, "study.ipynb")
        assert refused.code == 2
        assert "study.ipynb needs the kernel “missing”" in refused.err


PARENT = """
import subprocess, sys

command = [sys.executable, "-m", "springtide"]
subprocess.run([*command, "submit", "--name", "child", "--gpus", "0", "--", "sleep", "600"], check=True)
subprocess.run([*command, "jobs", "--mine", "--state", "running,queued,starting"], check=True)
"""


def test_a_script_in_the_pool_sends_jobs_by_the_same_command(run: Run, directory: Path) -> None:
    (directory / "parent.py").write_text(PARENT)
    done = run("submit", "--gpus", "0", "--follow", "--", "python", "parent.py")
    assert done.code == 0, done.out + done.err
    parent = next(line.split()[0] for line in done.err.splitlines() if " parent: " in line)
    [child] = [job for job in run("jobs", "--mine", "--json").json["items"] if job["submitted_by"] == parent]
    assert (child["name"], child["user"]) == ("child", "susan")
    assert re.search(rf"submitted by +job {parent}", run("show", child["id"]).out)
    ended = run("cancel", "--children", parent)
    assert ended.code == 0, ended.err
    assert child["id"] in ended.out
    until("its end", lambda: state_of(run, child["id"]) == "cancelled")


def test_a_followed_job_that_fails_is_a_failure(run: Run, directory: Path) -> None:
    (directory / "bad.py").write_text("raise SystemExit(3)\n")
    done = run("submit", "--follow", "--", "python", "bad.py")
    assert done.code == 1
    assert "failed" in done.err


STUBBORN = """
import signal, time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("started", flush=True)
time.sleep(3600)
"""


def test_a_cancelled_job_is_cancelling_until_its_program_has_ended_or_it_is_ended_now(
    run: Run, directory: Path
) -> None:
    (directory / "stubborn.py").write_text(STUBBORN)
    job = run("submit", "--name", "stubborn", "--grace", "3000", "--json", "python", "stubborn.py").json
    until("its first line", lambda: "started" in run("logs", job["id"]).out)
    assert " stubborn: cancelling. " in run("cancel", job["id"]).out
    assert re.search(rf"{job['id']} +stubborn .* cancelling ", run("jobs", "--mine").out)
    explained = run("explain", job["id"]).out
    assert ": cancelling\n" in explained
    assert re.search(r"It is killed in (50|49) min, if it has not ended by then\.", explained)
    for chosen in (("--state", "cancelling"), ("--where", "state = cancelling")):
        listed = run("jobs", "--mine", *chosen, "--json").json["items"]
        assert [(each["id"], each["state"], each["shown"]) for each in listed] == [
            (job["id"], "pausing", "cancelling")
        ], chosen
    assert run("jobs", "--mine", "--state", "pausing", "--json").json["items"] == [], "it does not pause"
    assert " stubborn: cancelling. " in run("cancel", job["id"]).out, "asked again, it has its time still"
    assert run("cancel", "--now", job["id"]).code == 0
    until("the end", lambda: state_of(run, job["id"]) == "cancelled")


def test_a_job_is_listed_paused_resumed_and_cancelled(run: Run, directory: Path) -> None:
    (directory / "long.py").write_text(LONG)
    job = run("submit", "--name", "tidal", "--json", "python", "long.py").json
    assert (job["name"], job["options"]["gpus"], job["user"]) == ("tidal", 1, "susan")
    until("its first line", lambda: "started" in run("logs", job["id"]).out)
    assert "tidal" in run("jobs", "--mine").out
    assert run("pause", job["id"], "--json").json["held_by_user"] is True
    until("the pause", lambda: state_of(run, job["id"]) == "paused")
    assert run("resume", job["id"]).code == 0
    until("attempt 2", lambda: run("logs", job["id"]).out.count("started\n") == 2)
    assert run("cancel", job["id"]).code == 0
    until("the end", lambda: state_of(run, job["id"]) == "cancelled")
    log = run("logs", "--follow", job["id"]).out
    mark = r"── attempt 2 of tidal, started again \d\d:\d\d on \S+ ──"
    assert re.fullmatch(rf"started\n{mark}\nstarted\n", log), log
    last = [run("logs", *follow, "--tail", "1", job["id"]).out for follow in ([], ["-f"])]
    assert last == ["started\n", "started\n"]
    assert run("logs", "--tail", "2", job["id"]).out == log


def test_ended_jobs_are_deleted_once_that_is_confirmed(run: Run) -> None:
    ended = run("submit", "--json", "--gpus", "0", "--name", "old", "--", "true").json["id"]
    active = run("submit", "--json", "--", "sleep", "600").json["id"]
    until("its end", lambda: run("show", ended, "--json").json["state"] == "succeeded")
    asked = run("delete", ended)
    assert (asked.code, "Delete 1 job with" in asked.err) == (1, True), asked
    assert run("show", ended).code == 0
    done = run("delete", "--yes", ended, active)
    assert (done.code, done.out) == (1, f"{ended} old: deleted\n"), done
    assert f"Cancel it first: springtide cancel {active}" in done.err
    assert run("show", ended).code == 1
    run("cancel", active)


def test_a_job_that_cannot_be_paused_does_not_keep_the_others(run: Run, directory: Path) -> None:
    (directory / "long.py").write_text(LONG)
    ended = run("submit", "--json", "--gpus", "0", "--", "true").json["id"]
    until("its end", lambda: run("show", ended, "--json").json["state"] == "succeeded")
    job = run("submit", "--json", "--", "python", "long.py").json["id"]
    until("its start", lambda: state_of(run, job) == "running")
    done = run("pause", ended, job)
    assert done.code == 1
    assert f"{job} long: paus" in done.out
    assert "there is nothing to pause.\n" in done.err
    run("cancel", job)


def test_what_is_asked_for_reaches_the_job(run: Run) -> None:
    asked = ("--time-limit", "1h30m", "--not-preemptible", "--retries", "2", "--priority", "60")
    job = run("submit", *asked, "--json", "--", "sleep", "600").json
    options = job["options"]
    assert (options["time_limit"], options["preemptible"]) == (5400.0, False)
    assert (options["retries"], options["priority"]) == (2, 60)
    assert run("cancel", job["id"]).code == 0


def test_a_job_is_run_again_with_other_options(run: Run) -> None:
    first = run(
        "submit", "--name", "tidal", "--tag", "low", "-e", "WORD=tide", "--json", "--", "sh", "-c", "echo $WORD"
    ).json["id"]
    assert run("wait", first).code == 0
    again = run("rerun", "--gpus", "2", "--follow", first)
    assert (again.code, again.out) == (0, "tide\n")
    assert "Run again of “tidal”: gpus 1 → 2." in again.err
    assert {job["id"] for job in run("jobs", "--tag", "low", "--json").json["items"]} > {first}
    assert run("tag", first, "best", "--remove", "low").out.split()[-1] == "best"
    assert first in {job["id"] for job in run("jobs", "--tag", "best", "--json").json["items"]}
    refused = run("rerun", first, user="joe")
    assert refused.code == 1


def test_a_job_is_forked_from_a_checkpoint_with_another_option_command_or_code(run: Run, directory: Path) -> None:
    (directory / "train.py").write_text(
        "import sys\nfrom springtide.training import current_job\njob = current_job()\n"
        "found = job.restore()\nprint('has', found.state if found else 0, *sys.argv[1:])\n"
        "for step in range(int(found.step) if found else 0, 3): job.save(step + 1, step=step + 1)\n"
    )
    first = run("submit", "--json", "--", "python", "train.py", "--rate", "0.1").json["id"]
    assert run("wait", first).code == 0
    listed = run("checkpoints", first)
    assert [line.split()[:2] for line in listed.out.splitlines()] == [
        ["CHECKPOINT", "STEP"],
        ["00000003", "3"],
        ["00000002", "2"],
        ["00000001", "1"],
    ]
    done = run("fork", "--step", "2", "--argument", "rate=0.5", "--argument", "--fast=true", "--follow", first)
    assert (done.code, done.out) == (0, "has 2 --rate 0.5 --fast\n"), done.err
    assert "Fork of “train” at step 2: rate 0.1 → 0.5, fast none → true." in done.err
    heads, row = run("jobs", "--mine", "--where", "forked_from = train and fork_step = 2").out.splitlines()
    assert row[heads.index("FORKED FROM") :].startswith("train at step 2  ")
    assert "GENERATION" not in heads
    assert "FORKED FROM" not in run("jobs", "--mine", "--where", "not forked_from").out
    [told] = csv.DictReader(io.StringIO(run("jobs", "--where", f"forked_from = {first}", "--format", "csv").out))
    assert (told["forked_from"], told["fork_step"], told["generation"]) == (first, "2", "")
    done = run("fork", "--follow", first, "--", "bash", "-c", "echo by a shell; ls train.py")
    assert (done.code, done.out) == (0, "by a shell\ntrain.py\n"), done.err
    (directory / "train.py").write_text("print('other code')\n")
    done = run("fork", "--follow", first, "--", "python", "train.py", "more")
    assert (done.code, done.out) == (0, "has 3 more\n"), done.err
    done = run("fork", "--present-code", "--follow", first)
    assert (done.code, done.out) == (0, "other code\n"), done.err
    (directory / "train.py").write_text("import sys\nprint('newer', *sys.argv[1:])\n")
    done = run("fork", "--present-code", "--argument", "rate=2", "--argument", "--fast=true", "--follow", first)
    assert (done.code, done.out) == (0, "newer --rate 2 --fast\n"), done.err
    assert "rate 0.1 → 2, fast none → true" in done.err
    wrong = run("fork", "--present-code", "--argument", "rat=2", first)
    assert (wrong.code, "“rat” is no argument of this job" in wrong.err) == (2, True), wrong.err
    secret = run("submit", "--json", "--", "python", "train.py", "--api-key", "hunter2").json["id"]
    hidden = run("fork", "--present-code", secret)
    assert hidden.code != 0
    assert "has hidden values, which nobody is shown. Give it after --." in hidden.err
    for odd in ("nan", "1e400"):
        refused = run("fork", "--step", odd, first)
        assert (refused.code, "expected the step of a checkpoint" in refused.err) == (2, True), refused.err
    late = run("fork", first, "--step", "2")
    assert (late.code, "Options come before the job: springtide fork --step 2" in late.err) == (2, True), late.err
    assert run("jobs", "--tag", "never").out == "No job matches: tag “never”.\n"
    missing = run("fork", "--step", "7", first)
    assert (missing.code, "The nearest is 3." in missing.err) == (2, True)
    assert run("fork", "--argument", "rate", first).code == 2
    one = run("checkpoints", first, "--delete", "00000001")
    assert one.out == "Deleted “00000001”; 2 checkpoints are left.\n"
    last = run("checkpoints", first, "--delete", "00000002", "--delete", "00000003")
    assert last.out == "Deleted “00000002” and “00000003”; none is left.\n"
    assert "they were deleted" in run("checkpoints", first).out


def test_a_fork_has_the_checkpoint_of_a_framework_in_its_own_copy_of_the_project(
    run: Run, directory: Path
) -> None:
    (directory / "train.py").write_text(
        "import pathlib\nrun = pathlib.Path('run')\nrun.mkdir(exist_ok=True)\n"
        "found = sorted(run.glob('ckpt_step_*.pt'))\nprint('has', *(path.read_text() for path in found))\n"
        "for step in range(len(found) + 1, len(found) + 3):\n"
        "    (run / f'ckpt_step_{step}.pt').write_text(f'of step {step}')\n"
    )
    first = run("submit", "--json", "--", "python", "train.py").json["id"]
    assert run("wait", first).code == 0
    listed = run("checkpoints", "--json", first).json["items"]
    assert {(each["name"], each["step"]) for each in listed} == {
        ("run/ckpt_step_1.pt", 1),
        ("run/ckpt_step_2.pt", 2),
    }
    done = run("fork", "--step", "1", "--follow", first)
    assert (done.code, done.out) == (0, "has of step 1\n"), done.err
    assert "Nothing passes the checkpoint to its command" in done.err
    ended = run("jobs", "--json").json["items"][0]
    assert ended["progress"]["step"] is None
    assert ended["rerun"]["text"] == "Fork of “train” at step 1 with nothing changed."
    passed = run("fork", "--step", "1", "--resume", "--from {checkpoint}", "--json", first).json
    assert "Nothing passes" not in passed["rerun"]["text"]
    assert run("wait", passed["id"]).code == 0
    for command in ("show", "explain"):
        assert "Fork of “train” at step 1: resume none → --from {checkpoint}." in run(command, passed["id"]).out
    assert not (directory / "run").exists(), "the project stays as it was"


@pytest.mark.parametrize(
    ("command", "words", "said"),
    [
        ("show", "\udcff", "has a part of a character"),
        ("show", "..", "is no part of an id"),
        ("show", "", "The id or name is empty."),
        ("exec", "", "The id or name is empty."),
        ("show", "x" * 70_000, "is too long"),
        ("logs", "x" * 70_000, "is too long"),
        ("jobs", "--where=" + "not " * 20_000 + "lr", "is too long"),
        ("jobs", "--tag=" + "x" * 70_000, "is too long"),
    ],
)
def test_what_no_request_can_carry_is_refused_with_a_sentence(
    run: Run, command: str, words: str, said: str
) -> None:
    refused = run(command, words)
    assert refused.code == 2, refused.err
    assert said in refused.err
    assert "Traceback" not in refused.err


def test_another_persons_job_is_not_shown_and_not_cancelled(run: Run, directory: Path) -> None:
    (directory / "long.py").write_text(LONG)
    job = run("submit", "--json", "python", "long.py").json["id"]
    assert job not in run("jobs", user="joe").out
    done = run("cancel", job, user="joe")
    assert done.code == 1
    assert done.err.startswith("Error: ")
    assert run("cancel", job).code == 0


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--gpus", "-1", "ls"], "gpus"),
        (["--gpus", "1.5", "ls"], "gpus"),
        (["--gpus", "1000000000000", "ls"], "gpus"),
        (["--gpus", "9", "ls"], "gpus"),
        (["--gpu", "1", "ls"], "--gpus"),
        (["--time-limit", "soon", "ls"], "10m, 2h, 1h30m"),
        (["--workers", "0", "ls"], "workers"),
        (["--project", "nobody's", "ls"], "project"),
        (["--image", "lab/base:1", "ls"], "image"),
        (["--priority", "urgent", "ls"], "priority"),
        (["--env", "A", "ls"], "--env"),
        (["python", "missing.py"], "missing.py"),
        ([], "COMMAND"),
    ],
    ids=" ".join,
)
def test_bad_input_is_named(run: Run, words: list[str], names: str) -> None:
    done = run("submit", *words)
    assert done.code == 2, done.err
    assert names in done.err
    assert "Traceback" not in done.err
    assert done.out == ""


def test_many_jobs_are_listed_at_once_and_an_unknown_project_is_an_error(run: Run) -> None:
    assert run("jobs", "--limit", "500").code == 0
    done = run("jobs", "--project", "nope")
    assert done.code == 2
    assert "There is no project “nope”" in done.err


def test_a_job_that_is_not_there_could_not_be_done(run: Run) -> None:
    done = run("logs", "no-such-job")
    assert done.code == 1
    assert done.err.startswith("Error: ")


def test_a_progress_bar_is_one_line_in_the_log(run: Run, directory: Path) -> None:
    bar = "for step in range(9): print(f'\\r{step} of 8', end='', flush=True)\nprint('\\ndone')\n"
    (directory / "bar.py").write_text(bar)
    done = run("submit", "--follow", "python", "bar.py")
    assert done.out == "8 of 8\ndone\n"


def test_a_log_does_not_reach_the_terminal_as_commands(run: Run, directory: Path) -> None:
    (directory / "loud.py").write_text("print('\\x1b[2Jgone\\x07')\n")
    done = run("submit", "--follow", "python", "loud.py")
    assert "gone" in done.out
    assert "\x1b" not in done.out
    assert "\x07" not in done.out


def test_projects_nodes_and_the_pool_are_shown(run: Run) -> None:
    projects = run("projects")
    assert projects.out.splitlines()[0].split()[:2] == ["PROJECT", "QUOTA"]
    assert {line.split()[0] for line in projects.out.splitlines()[1:]} == {"susan", "joe", "jemma"}
    assert {project["name"]: project["quota"] for project in run("projects", "--json").json} == {
        "susan": 2, "joe": 2, "jemma": 2,
    }  # fmt: skip
    assert sum(len(node["gpus"]) for node in run("nodes", "--json").json) == 11
    assert "simulated" in run("nodes").out
    assert "LINKED BY NVLINK" in run("nodes", "--topology").out
    assert "of 8 simulated train GPUs held" in run("top", "--once").out
    assert run("top", "--once", "--json").json["train_gpus"] == 8


def test_a_report_is_a_table_or_csv_or_json(run: Run, directory: Path) -> None:
    (directory / "short.py").write_text("print('ran')\n")
    assert run("submit", "--follow", "--gpus", "1", "--", "python", "short.py").code == 0
    table = run("report")
    head, *rows = table.out.splitlines()
    assert head.split()[:3] == ["PROJECT", "HELD", "h"]
    assert "GPUs are simulated: what they used is processor time.\n" in table.err
    assert "susan" in {row.split()[0] for row in rows}
    lines = run("report", "--by", "person,kind,month", "--format", "csv").out.splitlines()
    assert lines[0].startswith("person,kind,month,gpu_hours_held,gpu_hours_measured,gpu_hours_used,")
    assert any(line.startswith("susan,training,20") for line in lines)
    found = run("report", "--by", "type", "--json").json
    assert found["total"]["jobs"] >= 1
    assert run("report", "--by", "type", "--format", "json").json["by"] == ["type"]
    refused = run("report", "--mail", "--json")
    assert (refused.code, "Leave one out." in refused.err) == (2, True), refused
    refused = run("report", "--mail")
    assert (refused.code, refused.err) == (
        1,
        "Error: The pool has no mail server. An administrator of the pool can set one up.\n",
    )
    empty = run("report", "--from", "2001-01-01", "--to", "2001-01-31")
    assert empty.out == "No GPU-hours that you may see from 2001-01-01 to 2001-01-31.\n"
    wrong = run("report", "--from", "yesterday")
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err == "Error: start: “yesterday” is not a day. Give year, month and day, such as 2026-01-31.\n"


def test_the_project_of_jobs_that_name_none_is_chosen(run: Run) -> None:
    assert run("default-project").out.startswith("None. ")
    assert run("default-project", "susan").out == "susan\n"
    assert run("default-project", "--json").json == {"default_project": "susan"}
    assert run("submit", "--json", "true").json["project"] == "susan"
    refused = run("default-project", "joe")
    assert (refused.code, "You are not in project “joe”." in refused.err) == (2, True), refused
    assert run("default-project", "susan", "--none").code == 2
    assert run("default-project", "--none").out.startswith("None. ")


def test_a_pool_that_does_not_answer_is_said_so() -> None:
    done = called("jobs", env={"SPRINGTIDE_URL": "http://127.0.0.1:9/services/springtide"})
    assert done.code == 1
    assert "does not answer" in done.err


def test_a_token_that_is_no_good_is_said_so(hub: Hub) -> None:
    env = {"SPRINGTIDE_URL": f"{hub.url}/services/springtide", "JUPYTERHUB_API_TOKEN": "made-up"}
    done = called("jobs", env=env)
    assert done.code == 1
    assert done.err.startswith("Error: ")


def test_without_a_pool_the_way_out_is_told() -> None:
    done = springtide("projects")
    assert done.code == 1
    assert "SPRINGTIDE_URL" in done.err


def test_all_commands_take_json() -> None:
    for command in (
        "up",
        "submit",
        "jobs",
        "show",
        "logs",
        "result",
        "download",
        "pause",
        "resume",
        "cancel",
        "tag",
        "projects",
        "nodes",
        "needs",
        "report",
        "top",
    ):
        assert "--json" in called(command, "--help").out, command


def test_the_list_of_commands_is_that_of_the_manual() -> None:
    said = called("--help").out.split("Commands:")[1]
    commands = [line.split()[0] for line in said.splitlines() if line.startswith("  ") and line[2] != " "]
    assert " ".join(commands) == (
        "up submit advise rerun checkpoints fork jobs runs show logs exec stack wait result outputs download tag "
        "pause resume hold release edit finish cancel delete projects default-project set-project people "
        "groups join leave export apply copy-rules budget freeze unfreeze datasets presets nodes drain undrain "
        "book bookings unbook "
        "request free audit needs report what-if history top explain mcp env image-contents replay renumber "
        "doctor backup restore plan simulate"
    )


def test_a_dry_run_tells_when_the_job_would_start_and_sends_nothing(run: Run, directory: Path) -> None:
    (directory / "never.py").write_text("print('ran')\n")
    before = run("jobs", "--json").json["items"]
    done = run("submit", "--dry-run", "--gpus", "1", "--", "python", "never.py")
    assert done.code == 0, done.err
    first, *environment = done.out.splitlines()
    assert first.startswith("It would ")
    assert first.endswith("Nothing was sent.")
    assert [line.partition(":")[0] for line in environment] == ["Pause", "Python", "Project"]
    assert environment[0] == (
        "Pause: No sign of checkpoints found in never.py: a pause would start it again from the beginning."
    )
    told = run("submit", "--dry-run", "--json", "--", "python", "never.py").json
    assert told["job"]["likely"] is not None
    assert "never.py" in told["environment"]["tree"]["files"]
    assert [job["id"] for job in run("jobs", "--json").json["items"]] == [job["id"] for job in before]


def test_a_dry_run_says_nothing_twice(run: Run, directory: Path) -> None:
    (directory / "never.py").write_text("print('ran')\n")
    (directory / ".gitignore").write_text("data/\n")
    (directory / "data").mkdir()
    (directory / "data" / "large.bin").write_bytes(b"0")
    words = ("submit", "--dry-run", "--", "python", "never.py")
    done = run(*words, variables={"WANDB_PROJECT": "tide"})
    assert done.code == 0, done.err
    lines = [*done.out.splitlines(), *done.err.splitlines()]
    assert "Read and written in place: data/" in lines
    for once in ("in place: data/", str(directory), "WANDB_PROJECT is set here"):
        assert sum(once in line for line in lines) == 1, lines
    assert sum("WANDB_PROJECT" in line for line in lines) == 1


def test_an_error_names_its_job_once(run: Run) -> None:
    for words in (("cancel", "gone-1", "gone-2"), ("delete", "--yes", "gone-1", "gone-2")):
        done = run(*words)
        assert done.code == 1
        lines = done.err.removeprefix("Error: ").splitlines()
        assert [line.count(name) for line, name in zip(lines, ("gone-1", "gone-2"), strict=True)] == [1, 1]
        assert all(line.startswith("There is no job “gone-") for line in lines)


def test_a_dry_run_of_what_never_fits_is_refused_as_the_job_would_be(run: Run, directory: Path) -> None:
    (directory / "never.py").write_text("")
    done = run("submit", "--dry-run", "--gpus", "1000", "--", "python", "never.py")
    assert done.code == 2
    assert "You asked for 1,000 GPUs per worker" in done.err


@pytest.mark.parametrize(
    ("resume", "why"),
    [
        ("--x 'unterminated", "The arguments cannot be read: No closing quotation. Quote them as a shell does."),
        ("   ", "No arguments are given. An example: --resume checkpoints/last.pt"),
        ("--from {ckpt}", "“{ckpt}” is no placeholder. Did you mean {checkpoint}?"),
    ],
)
def test_wrong_arguments_to_resume_are_refused_in_a_dry_run_as_for_the_job(
    run: Run, directory: Path, resume: str, why: str
) -> None:
    (directory / "never.py").write_text("")
    for words in (["--dry-run"], []):
        done = run("submit", *words, "--resume", resume, "--", "python", "never.py")
        assert done.code == 2
        assert f"Error: {why}" in done.err


def test_what_is_missing_is_told_at_submission_and_shown_with_the_job(run: Run, directory: Path) -> None:
    (directory / "lacks.py").write_text("import nowhere_to_be_found\n")
    sent = run("submit", "--json", "-e", "TOKEN=hunter2", "--", "python", "lacks.py")
    assert "The code imports nowhere_to_be_found, which is not installed in" in sent.err
    shown = run("show", sent.json["id"])
    assert shown.code == 0, shown.err
    assert "Missing: The code imports nowhere_to_be_found" in shown.out
    assert "Variables: TOKEN\n" in shown.out
    assert "hunter2" not in shown.out
    assert run("show", sent.json["id"], "--json").json["environment"]["missing"] == ["nowhere_to_be_found"]


def test_the_list_says_when_a_waiting_job_likely_starts(run: Run, directory: Path) -> None:
    (directory / "long.py").write_text(LONG)
    sent = [
        run("submit", "--json", "--time-limit", "900", "--", "python", "long.py").json["id"] for _ in range(12)
    ]

    def told() -> bool:
        found = run("jobs", "--state", "queued", "--json").json["items"]
        return any(job["starts"] and job["starts"]["likely"] for job in found)

    try:
        until("a start that is known", told)
        listed = run("jobs", "--state", "queued").out
        assert "STARTS" in listed
        assert "in about " in listed or "any moment" in listed
    finally:
        run("cancel", *sent)


def test_the_values_that_a_condition_and_an_order_name_are_columns(run: Run, directory: Path) -> None:
    (directory / "train.py").write_text(
        "import sys\nfrom springtide.training import current_job\njob = current_job()\n"
        "for step, loss in enumerate([0.5, 0.125, 0.25]): job.report(step=step, loss=loss)\n"
    )
    words = ("submit", "--gpus", "0", "--tag", "columns", "--json", "--", "python", "train.py", "--rate", "0.1")
    assert run("wait", run(*words).json["id"]).code == 0
    where = "tag = columns and rate < 1 and gpus = 0"
    listed = run("jobs", "--mine", "--where", where, "--order", "-best.loss")
    heads, row = listed.out.splitlines()
    shown = {name: row[heads.index(name) :].split()[0] for name in ("tag", "rate", "best.loss")}
    assert shown == {"tag": "columns", "rate": "0.1", "best.loss": "0.125"}
    assert "gpus" not in heads, "the table has GPUS"
    assert "best.loss" not in run("jobs", "--mine", "--tag", "columns").out
    typo = run("jobs", "--mine", "--tag", "columns", "--order", "best.los", "--format", "csv")
    assert "does not have the metric “los”. Did you mean “loss”? Known is “loss”." in typo.err
    assert typo.out.startswith("id,name,")


SENDS_A_FUNCTION = """
from springtide.widgets import pool


def train(rate):
    return rate


print(pool.submit(train, 0.1, gpus=0, name="mine").id)
"""


def test_a_function_is_shown_by_its_name(run: Run, directory: Path) -> None:
    (directory / "own.py").write_text(SENDS_A_FUNCTION)
    sent = run("submit", "--gpus", "0", "--follow", "--", "python", "own.py")
    assert sent.code == 0, sent.err
    shown = run("show", sent.out.split()[-1]).out
    assert re.search(r"runs +function train$", shown, re.MULTILINE), shown

"""What became of jobs, from a terminal: for scripts and CI."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hubs.hub_people import Hub
from patience import PATIENCE_S
from programs.terminal import Done, Run

from springtide.hub_extension.commands import results
from springtide.scheduler.client import Client
from springtide.widgets.connection import Connection
from springtide.widgets.shared_pool import Pool

pytestmark = pytest.mark.xdist_group("hub-command")

LEAVES = """
import os
from springtide.training import current_job
directory = current_job().output_directory
(directory / "plots").mkdir()
(directory / "plots/loss.csv").write_text("1.0")
(directory / "model.pt").write_text("weights")
(directory / os.fsdecode(b"caf\\xe9.txt")).write_text("latin")
"""


@pytest.fixture
def susans_pool(hub: Hub, tokens: Callable[[str], str], directory: Path, monkeypatch: pytest.MonkeyPatch) -> Pool:
    """The pool as a notebook of susan's sees it."""
    monkeypatch.chdir(directory)
    return Pool(Connection(Client(f"{hub.url}/services/springtide", tokens("susan"))))


def test_a_script_waits_for_a_job_and_saves_what_it_left(run: Run, directory: Path) -> None:
    (directory / "leaves.py").write_text(LEAVES)
    job = run("submit", "--json", "python", "leaves.py").json["id"]
    waited = run("wait", job)
    assert (waited.code, "succeeded" in waited.out) == (0, True), waited
    assert {file["name"] for file in run("outputs", job, "--json").json["items"]} == {
        "model.pt",
        "plots/loss.csv",
        r"caf\xe9.txt",
    }
    done = run("download", job, "--to", "results")
    assert done.code == 0, done.err
    assert (directory / "results/plots/loss.csv").read_text() == "1.0"
    assert (directory / "results/model.pt").read_text() == "weights"
    assert r"results/caf\xe9.txt" in done.out
    assert (directory / os.fsdecode(b"results/caf\xe9.txt")).read_text() == "latin"
    assert run("download", job, r"caf\xe9.txt", "--json").json == {"files": [r"caf\xe9.txt"]}
    assert (directory / os.fsdecode(b"caf\xe9.txt")).read_text() == "latin"
    assert run("download", job, "plots", "--to", str(directory)).code == 0
    assert (directory / "plots/loss.csv").read_text() == "1.0"
    refused = run("download", job, "model.pt", "--to", "results/model.pt")
    assert (refused.code, "is a file" in refused.err) == (2, True), refused
    (directory / "model.pt").unlink(missing_ok=True)
    refused = run("download", job, "model.pt", str(directory / "as.pt"))
    assert (refused.code, "--to names the directory" in refused.err) == (2, True), refused
    assert not (directory / "model.pt").exists(), "nothing is saved by a command that is refused"
    refused = run("download", job, "../model.pt")
    assert (refused.code, "no file of a job" in refused.err) == (2, True), refused


def test_an_odd_name_is_listed_as_a_shell_writes_it_and_downloaded_by_that(run: Run, directory: Path) -> None:
    (directory / "odd.py").write_text(
        "from springtide.training import current_job\n"
        "directory = current_job().output_directory\n"
        "(directory / 'x\\ny.txt').write_text('odd')\n"
        "(directory / 'a  b').mkdir()\n"
        "(directory / 'a  b/c').write_text('deep')\n"
    )
    job = run("submit", "--json", "python", "odd.py").json["id"]
    assert run("wait", job).code == 0
    shown = {line.split("  ")[0] for line in run("outputs", job).out.splitlines()[1:]}
    assert r"$'x\ny.txt'" in shown
    assert r"$'x\ny.txt'" in run("show", job).out
    for name in (r"$'x\ny.txt'", "x\ny.txt"):
        (directory / "x\ny.txt").unlink(missing_ok=True)
        saved = run("download", job, name)
        assert (saved.code, saved.out) == (0, "$'x\\ny.txt'\n"), saved
        assert (directory / "x\ny.txt").read_text() == "odd"
    assert run("download", job, "$'a  b'", "--to", "deep").out == "$'deep/a  b/c'\n"
    assert (directory / "deep/a  b/c").read_text() == "deep"
    assert run("download", job, r"$'y\nx'").code == 1


def test_a_wait_tells_by_its_exit_code_how_jobs_ended(run: Run) -> None:
    failing = run("submit", "--json", "--", "sh", "-c", "exit 3").json["id"]
    sleeping = run("submit", "--json", "--", "sleep", "600").json["id"]
    assert run("wait", failing).code == 1
    over = run("wait", sleeping, "--timeout", "0.1s")
    assert (over.code, over.err) == (124, "After 0.1 s not all have ended. They continue.\n")
    assert run("cancel", sleeping).code == 0
    assert run("wait", failing, sleeping).code == 1
    assert run("wait", sleeping, "--timeout", "soon").code == 2


def test_a_wait_outlives_a_restart_of_the_pools_service(run: Run, hub: Hub) -> None:
    job = run("submit", "--json", "--", "sleep", "2").json["id"]
    service = hub.service_pid()
    os.kill(service, signal.SIGKILL)
    waited = run("wait", job)
    assert (waited.code, waited.err) == (0, ""), waited
    assert hub.service_pid() != service


def test_a_script_prints_what_a_job_came_to(run: Run, directory: Path) -> None:
    write = "echo '{\"loss\": 0.5}' > $SPRINGTIDE_OUTPUT_DIR/result.json; "
    write += f"while [ ! -e {directory}/go ]; do sleep 0.1; done"
    job = run("submit", "--json", "--name", "one", "--tag", "baseline", "--", "sh", "-c", write).json["id"]
    assert run("result", job, "--timeout", "0.1s").code == 124
    (directory / "go").touch()
    assert run("result", job).json == {"loss": 0.5}
    shown = run("show", job).out
    assert f"{job} one: succeeded." in shown
    for fact in (
        "project      susan",
        "GPUs         1",
        "tags         baseline",
        "exit code    0",
        "files        result.json",
    ):
        assert fact in shown
    assert run("show", "no-such-job").code == 1
    silent = run("submit", "--json", "--", "true").json["id"]
    refused = run("result", silent)
    assert (refused.code, "has left no result.json" in refused.err) == (1, True), refused
    failed = run("submit", "--json", "--", "false").json["id"]
    assert (run("result", failed).code, run("show", failed).code) == (1, 0)


LARGE = f"1{'0' * 6000}"


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (f"[{LARGE}]", 0, f"[{LARGE}]"),
        ('["\\ud800"]', 0, '["\\ud800"]'),
        ('"a\\ud800"', 0, '"a\\ud800"'),
        ('"a\u00e9"', 0, "a\u00e9"),
        ("1" * 200_001, 1, "has a number of 200,001 digits, which is not printed: `springtide download"),
        ("[1e999]", 1, "has the number “1e999”, which is larger than all floats, which is not printed"),
        ("[", 1, "is no JSON"),
    ],
)
def test_a_result_is_printed_exactly_or_refused_in_a_sentence(content: str, code: int, said: str) -> None:
    digits = sys.get_int_max_str_digits()
    if code:
        with pytest.raises(ValueError, match=r"has|a number|the number|Expecting") as error:
            results.read(content.encode())
        assert said.startswith(f"has {error.value}") or said == "is no JSON"
    else:
        assert results.printed(results.read(content.encode()), as_json=False) == said
    assert sys.get_int_max_str_digits() == digits


def test_a_function_and_a_sweep_have_results_for_programs_that_are_not_in_python(
    run: Run, susans_pool: Pool
) -> None:
    def double(number: int) -> int:
        return 2 * number

    function = susans_pool.submit(double, 21)
    assert run("result", function.id).json == 42
    text = susans_pool.submit("".join, ["a", "b"])
    assert (run("result", text.id).out, run("result", text.id, "--json").out) == ("ab\n", '"ab"\n')
    refused = run("result", susans_pool.submit(set).id)
    assert (refused.code, "no JSON value" in refused.err) == (1, True), refused
    sweep = susans_pool.sweep(double, {"number": [3, 1, 2]})
    best = run("result", sweep.id).json
    assert (best["trial"], best["value"], best["parameters"]) == (1, 2.0, {"number": 1})


def test_all_jobs_of_ones_own_are_cancelled_at_once(run: Run) -> None:
    asleep = ("--", "sleep", "600")
    tagged = run("submit", "--json", "--tag", "nightly", *asleep).json["id"]
    other = run("submit", "--json", *asleep).json["id"]
    joes = run("submit", "--json", *asleep, user="joe").json["id"]
    assert tagged in (done := run("cancel", "--all", "--tag", "nightly")).out
    assert (done.code, other in done.out) == (0, False)
    assert other in run("cancel", "--all").out
    assert run("wait", tagged, other, "--timeout", f"{PATIENCE_S}").code == 1
    assert run("cancel", "--all") == Done(0, "", "")
    for words in ((), ("--all", other), (other, "--tag", "nightly")):
        assert run("cancel", *words).code == 2
    done = run("cancel", "no-such-job", joes, user="joe")
    assert (done.code, joes in done.out, "no-such-job" in done.err) == (1, True, True), done


def test_a_wait_hears_of_the_end_without_another_look(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "LOOK_EVERY_S", 3_600.0)
    job = run("submit", "--json", "--", "sleep", "4").json["id"]
    waited = run("wait", job, "--json")
    assert waited.code == 0, waited

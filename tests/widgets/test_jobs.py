"""Functions, commands, notebooks and cells run in the pool, and their results come back."""

import asyncio
import os
import pickle
import signal
import sys
import textwrap
import time
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

import springtide.widgets.handle as handle_module
from springtide.scheduler.client import Client
from springtide.widgets.connection import PoolError
from springtide.widgets.errors import (
    CaptureError,
    JobCancelledError,
    JobFailedError,
    NoResultError,
    NotFinishedError,
    OptionError,
    SpringtideError,
    UntrustedResultError,
)
from springtide.widgets.handle import WaitInterrupted
from springtide.widgets.job import Job

SLEEP = [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(600)"]
PAUSING = textwrap.dedent("""
    import sys, time
    from springtide.training import current_job
    job = current_job()
    found = job.restore()
    step = found.state if found else 0
    while not sys.stdin or step < 1000:
        job.report(step=step, of=1000, loss=1 / (step + 1))
        if found and step > found.state:
            break
        if job.should_pause():
            job.save(step, step=step)
            job.exit_for_pause()
        step += 1
        time.sleep(0.02)
""")


@pytest.fixture
def hold(pool_of, until):
    """Keep the whole pool busy until released."""
    jobs = []

    def hold():
        jobs.append(pool_of("susan").submit(SLEEP, gpus=4, name="hold"))
        until(lambda: jobs[0].state == "running")
        return jobs[0]

    return hold


# ---------- what runs


@pytest.fixture
def interruptible():
    """Interrupts raise `KeyboardInterrupt`, also where the tests run in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_while_work_is_sent_waits_for_the_answer_and_names_the_job(pool, monkeypatch, capsys):
    submit, before = Client.submit, signal.getsignal(signal.SIGINT)

    def interrupted(client, submission, packed):
        for _ in range(int(submission.name)):
            signal.raise_signal(signal.SIGINT)
        return submit(client, submission, packed)

    monkeypatch.setattr(Client, "submit", interrupted)
    for times in (2, 1):
        with pytest.raises(KeyboardInterrupt):
            pool.submit(["true"], name=str(times))
        assert signal.getsignal(signal.SIGINT) is before
    (job,) = [each for each in pool.jobs() if each.name in {"1", "2"}]
    assert job.name == "1"
    waits = "The work is being sent. Interrupt again to stop waiting for the pool's answer.\n"
    assert capsys.readouterr().err == (
        f"{waits}{waits}Sent before the interrupt: “1”. pool.job({job.id!r}).cancel() cancels it.\n"
    )


def test_a_function_runs_on_its_gpus_and_brings_its_result(pool, workdir):
    word = "tide"

    def train(number, *, gpus):
        visible = os.environ["CUDA_VISIBLE_DEVICES"]
        return {
            "word": word,
            "number": number,
            "gpus": gpus,
            "visible": len(visible.split(",")),
            "cwd": Path.cwd().name,
        }

    job = pool.submit(train, 3, kwargs={"gpus": "own"}, gpus=2)
    assert job.result() == {
        "word": "tide", "number": 3, "gpus": "own", "visible": 2, "cwd": workdir.name,
    }  # fmt: skip
    assert job.name == "train"


@pytest.mark.parametrize("ends", ["sys.exit(0)", "os._exit(0)", "threading.Timer(0, os._exit, [0]).start()"])
def test_a_function_that_ends_its_process_has_no_result_and_says_so(pool, workdir, ends):
    def train():
        exec(f"import os, sys, threading\n{ends}")
        time.sleep(60)

    job = pool.submit(train)
    with pytest.raises(NoResultError, match=r"^Job train has no result\. It has finished\. Its process"):
        job.result(60)
    assert (job.state, job.info.exit_code) == ("succeeded", 0)
    assert "before the function or cell returned" in job.reason


def test_what_is_edited_after_submission_changes_nothing(pool, workdir, hold):
    holder = hold()
    (workdir / "train.py").write_text("import helper; print('script', helper.WORD)")
    (workdir / "helper.py").write_text("WORD = 'before'")
    values = ["before"]

    def function():
        return values

    command = pool.submit("python train.py", gpus=2)
    called = pool.submit(function, gpus=2)
    (workdir / "helper.py").write_text("WORD = 'after'")
    (workdir / "train.py").unlink()
    values[0] = "after"
    holder.cancel()
    assert called.wait(quiet=True).result() == ["before"]
    assert "script before" in command.wait(quiet=True).logs()


def test_a_notebook_is_executed_and_kept(pool, workdir):
    (workdir / "beside.py").write_text("WORD = 'tide'")
    cells = [new_code_cell("import beside\nprint(beside.WORD)"), new_code_cell("6 * 7")]
    nbformat.write(new_notebook(cells=cells), workdir / "story.ipynb")
    job = pool.submit("story.ipynb")
    kept = job.wait(quiet=True).result()
    assert kept["cells"][0]["outputs"][0]["text"] in ("tide\n", ["tide\n"])
    assert kept["cells"][1]["outputs"][0]["data"]["text/plain"] in ("42", ["42"])
    assert "as it was last saved" in job.notes[0]


def test_a_notebook_runs_with_its_parameters(pool, workdir):
    cells = [new_code_cell("factor = 1", metadata={"tags": ["parameters"]}), new_code_cell("factor * 7")]
    nbformat.write(new_notebook(cells=cells), workdir / "my study.ipynb")
    job = pool.submit("my study.ipynb", factor=6)
    kept = job.wait(quiet=True).result()
    assert kept["cells"][2]["outputs"][0]["data"]["text/plain"] in ("42", ["42"])
    assert "factor = 6" in job.info.source
    assert job.progress.step == job.progress.of == 3


def test_a_notebook_whose_kernel_is_not_there_is_not_submitted(pool, workdir):
    spec = {"name": "missing", "display_name": "Missing", "language": "python"}
    nbformat.write(new_notebook(metadata={"kernelspec": spec}), workdir / "kernelless.ipynb")
    with pytest.raises(
        CaptureError, match=r"needs the kernel “missing”.*python3.* ipykernel install --user --name"
    ):
        pool.submit("kernelless.ipynb")
    assert pool.jobs(search="kernelless") == []


def test_a_cell_runs_with_the_variables_it_reads(pool, workdir):
    namespace = {"__name__": "__main__", "factor": 6, "secret": object()}
    job = pool.submit_cell("answer = factor * 7\nanswer", namespace, (), {"gpus": 1})
    assert job.wait(quiet=True).result() == 42
    assert "answer" not in namespace


def test_a_result_that_cannot_be_loaded_here_says_why(pool, workdir):
    def made(name):
        import sys  # noqa: PLC0415
        import types  # noqa: PLC0415

        module = sys.modules[name] = sys.modules.get(name) or types.ModuleType(name)
        only_in_the_job = type("OnlyInTheJob", (), {"__module__": name})
        setattr(module, "OnlyInTheJob", only_in_the_job)  # noqa: B010 - a module has no such attribute to check
        return only_in_the_job()

    with pytest.raises(NoResultError, match=r"Its module only_in_the_job is not installed here: %pip install"):
        pool.submit(made, "only_in_the_job").result()
    with pytest.raises(NoResultError, match=r"OnlyInTheJob.*\. Run the cells that define it, or update"):
        pool.submit(made, "json").result()


def test_the_results_of_all_workers_come_by_rank(pool, workdir):
    def train():
        from springtide.training import current_job  # noqa: PLC0415

        rank = current_job().rank
        return bytes(17 << 20) if rank == 2 else rank * 10

    job = pool.submit(train, workers=2)
    assert job.results() == [0, 10]
    assert job.result() == 0
    large = pool.submit(train, workers=3)
    with pytest.raises(NoResultError, match=r"no output “result\.2\.pkl”"):
        large.results()
    assert "The result of rank 2 is larger than 16 MiB, so it is not saved." in large.logs(rank=2)
    assert pool.submit(lambda: 1).results() == [1]


# ---------- what goes wrong


def test_an_exception_in_the_job_comes_back_with_its_traceback(pool, workdir):
    (workdir / "model.py").write_text("def train(rate):\n    return 1 / rate\n")
    sys.path.insert(0, str(workdir))
    try:
        import model  # noqa: PLC0415

        job = pool.submit(model.train, 0)
    finally:
        sys.path.remove(str(workdir))
        del sys.modules["model"]
    with pytest.raises(
        JobFailedError, match=r"Job train failed\. ZeroDivisionError: division by zero \(model\.py, line 2\)\. See"
    ) as caught:
        job.wait(quiet=True).result()
    assert "ZeroDivisionError: division by zero" in str(caught.value)
    assert "return 1 / rate" in caught.value.traceback
    assert caught.value._render_traceback_() == [f"JobFailedError: {caught.value}"]


def test_a_failed_test_run_fails_the_job_with_its_traceback_and_log(pool, workdir):
    def train():
        from springtide.training import current_job  # noqa: PLC0415

        print("with", current_job().world, "worker, test run:", current_job().test_run)
        return 1 / 0

    job = pool.submit(train, workers=2, gpus=2, test_run=True)
    with pytest.raises(JobFailedError, match=r"Job train failed\. Its test run failed, so it was not") as caught:
        job.wait(quiet=True).result()
    assert "ZeroDivisionError" in caught.value.traceback
    assert "with 1 worker, test run: True" in job.logs()
    assert repr(pool.job(job.id)) == repr(job)
    assert "Test run: failed after" in job._repr_mimebundle_()["text/plain"]


def test_a_result_that_is_not_there_says_why(pool, workdir):
    running = pool.submit(SLEEP)
    with pytest.raises(NotFinishedError, match=r"still .*It continues"):
        running.result(timeout=0)
    running.cancel()
    with pytest.raises(JobCancelledError):
        running.wait(quiet=True).result()
    command = pool.submit([sys.executable, "-c", "pass"]).wait(quiet=True)
    with pytest.raises(NoResultError, match=r"has left no result\.json in its output directory"):
        command.result()
    write = "import os, pathlib; pathlib.Path(os.environ['SPRINGTIDE_OUTPUT_DIR'], 'result.json').write_text({!r})"
    assert pool.submit([sys.executable, "-c", write.format('{"acc": [0.5]}')]).result(60) == {"acc": [0.5]}
    with pytest.raises(NoResultError, match=r"result\.json of job \w+ is no JSON"):
        pool.submit([sys.executable, "-c", write.format("acc")]).result(60)
    with pytest.raises(NoResultError, match=r"no output “model\.pt”"):
        command.output("model.pt")


def test_a_refusal_of_the_pool_is_one_sentence(pool, workdir):
    with pytest.raises(PoolError) as caught:
        pool.submit(SLEEP, gpus=1000)
    assert "4" in str(caught.value)
    assert caught.value._render_traceback_() == [f"PoolError: {caught.value}"]
    with pytest.raises(PoolError, match="atlantis"):
        pool.submit(SLEEP, project="atlantis")
    with pytest.raises(PoolError):
        pool.job("nothing")


def test_a_job_whose_name_is_nothing_but_spaces_is_named_after_what_it_runs(pool, workdir):
    def trains(x=0):
        return x

    jobs = [pool.submit(trains, name=" "), pool.sweep(trains, {"x": [1]}, name=" ")]
    jobs.append(pool.submit("true", name=" "))
    assert [job.name for job in jobs] == ["trains", "trains", "true"]
    assert [job.wait(quiet=True).rerun(name=" ").name for job in jobs] == ["trains", "trains", "true"]


def test_what_names_no_project_is_for_the_default_one(pool_of, workdir):
    pool = pool_of("anna")
    assert pool.default_project is None
    with pytest.raises(PoolError, match="Name it"):
        pool.submit("true")
    pool.default_project = "speech"
    assert pool.default_project == "speech"
    cell = pool.submit_cell("6 * 7", {}, (), {})
    sent = [pool.submit("true"), cell, pool.map(len, ["a"]), pool.sweep(dict, {"rate": [0.1]})]
    assert [job.info.project for job in sent] == ["speech"] * 4
    assert pool.submit("true", project="vision").info.project == "vision"
    with pytest.raises(PoolError, match="There is no project “nowhere”"):
        pool.default_project = "nowhere"
    assert pool.default_project == "speech"
    pool.default_project = None
    assert pool.submit("true").info.project == "vision", "that of the latest job"


def test_a_metric_that_no_job_has_is_a_warning_with_those_that_there_are(pool, workdir):
    pool.submit("true", tags=["typo"])
    with pytest.warns(UserWarning, match=r"does not have the metric “los”\. No metric is known of it\."):
        assert len(pool.jobs(tag="typo", order="best.los")) == 1


def test_a_job_that_is_too_large_is_refused_with_the_sizes(pool, workdir):
    data = os.urandom(5 << 20)

    def train():
        return len(data)

    with pytest.raises(CaptureError, match=r"the pool takes 3\.0 MiB.*variable `data` 5\.0 MiB"):
        pool.submit(train)
    assert not pool.jobs("queued,running")


def test_somebody_elses_result_is_loaded_only_when_trusted(pool_of, workdir):
    def train():
        return "susan's"

    made = pool_of("susan").submit(train).wait(quiet=True)
    seen = pool_of("joe").job(made.id)
    with pytest.raises(UntrustedResultError, match="trust=True"):
        seen.result()
    assert seen.result(trust=True) == "susan's"


# ---------- handles


def test_pausing_and_resuming_goes_on_from_the_checkpoint(pool, workdir, until):
    (workdir / "work.py").write_text(PAUSING)
    job = pool.submit("python work.py")
    until(lambda: (job.progress.step or 0) >= 3)
    job.pause()
    until(lambda: job.state == "paused")
    saved = job.info.saved_step
    assert saved >= 3
    job.resume()
    job.wait(quiet=True)
    assert job.state == "succeeded"
    assert job.info.attempt == 2
    assert job.info.attempts[1].resumed_from == saved


def test_a_paused_job_is_edited_and_wrong_values_are_refused_here(pool, workdir, until):
    job = pool.submit(SLEEP, name="edited")
    job.pause()
    until(lambda: job.state == "paused")
    job.edit(priority="high", time_limit="2h", reason="A deadline.")
    assert (job.info.options.priority, job.info.options.time_limit) == (75, 7200.0)
    job.edit(time_limit=None)
    assert job.info.options.time_limit is None
    with pytest.raises(OptionError, match="There is no priority “urgent”"):
        job.edit(priority="urgent")
    with pytest.raises(OptionError, match="gpus"):
        job.edit(gpus=2)
    with pytest.raises(PoolError, match="no project"):
        job.edit(project="nobody")


def test_jobs_come_back_by_their_ids(pool, workdir):
    job = pool.submit(SLEEP, name="mine")
    assert job in pool.jobs()
    again = pool.job(job.id)
    assert again == job
    assert again.name == "mine"
    assert job.id in pool.jobs()._repr_mimebundle_()["text/plain"]


def test_a_job_is_run_again_with_its_code_and_arguments(pool, pool_of, workdir):
    (workdir / "factor.txt").write_text("3")

    def train(rate, *, epochs):
        return rate * epochs * int((workdir / "factor.txt").read_text()), os.environ.get("SEED")

    first = pool.submit(train, 0.5, epochs=4, name="train", kwargs=None)
    assert first.result() == (6.0, None)
    again = first.rerun(gpus=2, env={"SEED": "7"}, tags="seeds,second")
    assert pool.jobs(tag="seeds") == [again]
    again.tag("best", "of-two")
    again.untag("second")
    assert again.tags == ["seeds", "best", "of-two"]
    again.tags = ["kept"]
    assert (pool.jobs(tag="kept"), pool.jobs(tag="best")) == ([again], [])
    with pytest.raises(PoolError, match="“two words” cannot be a tag"):
        again.tag("two words")
    assert isinstance(again, Job)
    assert again != first
    assert again.result() == (6.0, "7")
    shown = again._repr_mimebundle_()
    assert (
        "Run again of “train”: gpus 1 → 2, tags none → seeds, second, env with another SEED."
        in shown["text/plain"]
    )
    assert "gpus 1 → 2" in shown["text/html"]
    with pytest.raises(OptionError, match="gpus is “many”"):
        first.rerun(gpus="many")
    with pytest.raises(PoolError, match="only susan may run it again"):
        pool_of("joe").job(first.id).rerun()


def test_waiting_shows_the_bar_and_may_end_early(pool, workdir, capsys):
    job = pool.submit(SLEEP, name="mine")
    with pytest.raises(
        TimeoutError, match=r"Job mine is still .*\. It continues; ask again, or `await job`\."
    ) as caught:
        job.wait(timeout=0.5)
    assert isinstance(caught.value, NotFinishedError)
    assert not job.done
    assert capsys.readouterr().out
    with pytest.raises(NotFinishedError):
        job.wait("0.1s", quiet=True)
    with pytest.raises(OptionError, match="The timeout “soon” is not a duration such as"):
        job.wait("soon")
    job.cancel()
    assert job.wait("10m", quiet=True) is job


@pytest.mark.usefixtures("interruptible")
def test_interrupting_the_wait_leaves_the_job_running(pool, workdir, until, monkeypatch):
    job = pool.submit(SLEEP)
    until(lambda: job.state == "running")
    looks = []

    class Interrupting(handle_module.JobFeed):
        def refresh(self):
            looks.append(self)
            if len(looks) == 1:
                os.kill(os.getpid(), signal.SIGINT)
            return super().refresh()

    monkeypatch.setattr(handle_module, "JobFeed", Interrupting)
    with pytest.raises(WaitInterrupted, match=rf"The job continues.*{job.id}"):
        job.wait(quiet=True)
    assert job.state == "running"


def test_interrupting_before_the_first_answer_is_no_other_interruption(pool, workdir, monkeypatch):
    job = pool.submit(SLEEP)

    def interrupted(_job):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Job, "info", property(interrupted))
        with pytest.raises(WaitInterrupted, match="The job continues"):
            job.wait(quiet=True)
    assert not job.done


def test_an_async_function_runs_to_its_end(pool, workdir):
    async def train():
        return await asyncio.sleep(0, "tide")

    assert pool.submit(train).result() == "tide"


async def test_jobs_can_be_awaited_together(pool, workdir):
    def square(number):
        return number**2

    jobs = [await asyncio.to_thread(pool.submit, square, number) for number in (2, 3)]
    assert await asyncio.gather(*jobs) == [4, 9]


def test_the_log_is_text_or_followed_until_the_end(pool, workdir, capsys):
    code = "import time\nfor n in range(3): print('line', n, '\\x1b]0;evil\\x07', flush=True); time.sleep(0.1)"
    job = pool.submit([sys.executable, "-c", code])
    assert job.logs(follow=True) is None
    printed = capsys.readouterr().out
    assert "line 0 \nline 1 \nline 2 \n" in printed
    assert job.wait(quiet=True).logs() in printed
    assert repr(job.logs()) == job.logs()
    assert job.logs(tail=2) == "line 1 \nline 2 \n"
    job.logs(follow=True, tail=1)
    assert capsys.readouterr().out == "line 2 \n"


def test_a_waiting_job_says_why(pool, workdir, hold, until):
    hold()
    job = pool.submit(SLEEP, gpus=4)
    until(lambda: job.reason)
    assert job.state == "queued"


def test_a_waiting_job_says_when_it_likely_starts(pool, workdir, hold, until):
    hold()
    job = pool.submit(SLEEP, gpus=4)
    until(lambda: "ikely" in job.starts)
    assert job.starts in job._repr_mimebundle_()["text/plain"] or job.state != "queued"


def test_the_pool_says_when_a_job_would_start_without_submitting_it(pool, workdir, hold):
    assert repr(pool.when(gpus=2)) == "It would start now on 2 GPUs, all within the quota."
    hold()
    said = pool.when(gpus=4, name="idea")
    assert said.forecast.job.likely is not None
    assert repr(said).startswith("It would ")
    assert [job.name for job in pool.jobs(state="queued").infos] == []


def test_the_pool_says_which_placements_were_measured(pool, workdir):
    assert repr(pool.advise(name="train", gpus=2)).startswith("Nothing is known of it yet")
    with pytest.raises(OptionError, match="Unknown option `gpu`"):
        pool.advise(gpu=1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gpu": 1}, "Unknown option `gpu`"),
        ({"gpus": -1}, "gpus is -1; expected a whole number from 0"),
        ({"gpus": 100}, "largest train node"),
    ],
)
def test_what_could_not_be_submitted_has_no_start(pool, options, words):
    with pytest.raises(SpringtideError, match=words):
        pool.when(**options)


def test_a_handle_is_only_an_id(pool, workdir):
    job = pool.submit(SLEEP)
    assert pickle.loads(pickle.dumps(job)) == Job(job.id)
    assert repr(job) == f"Job({job.id!r})"

"""The same in a real kernel, the way a notebook has it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from jupyter_client.manager import KernelManager

WIDGET = "application/vnd.jupyter.widget-view+json"


class Kernel:
    """A kernel in a directory, with a person's token."""

    def __init__(self, directory, url: str, user: str, python: str | None = None) -> None:
        self._env = {**os.environ, "SPRINGTIDE_URL": url, "JUPYTERHUB_API_TOKEN": user}
        self._manager = KernelManager(kernel_name="python3")
        if python is not None:
            self._manager.kernel_spec.argv[0] = python
        self._manager.start_kernel(cwd=str(directory), env=self._env)
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(60)

    def run(self, code: str) -> Cell:
        """Run a cell to its end."""
        cell = self.begin(code)
        cell.finish()
        return cell

    def begin(self, code: str) -> Cell:
        return Cell(self._client, self._client.execute(code))

    def interrupt(self) -> None:
        self._manager.interrupt_kernel()

    def restart(self) -> None:
        self._manager.restart_kernel(now=True)
        self._client.wait_for_ready(60)

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


class Cell:
    """What a cell put out."""

    def __init__(self, client, message_id: str) -> None:
        self._client = client
        self._id = message_id
        self.text = ""
        self.data: dict = {}
        self.images = 0
        self.error: dict = {}

    def until_printed(self, words: str) -> None:
        self._read(lambda: words in self.text)

    def finish(self) -> None:
        self._read(lambda: False)

    def _read(self, enough) -> None:
        deadline = time.monotonic() + 60
        while not enough():
            message = self._client.get_iopub_msg(timeout=max(0.0, deadline - time.monotonic()))
            if message["parent_header"].get("msg_id") != self._id:
                continue
            content = message["content"]
            if message["msg_type"] == "stream":
                self.text += content["text"]
            elif message["msg_type"] in ("execute_result", "display_data"):
                self.data = content["data"]
                self.images += "image/png" in self.data
            elif message["msg_type"] == "error":
                self.error = content
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                return


pytestmark = pytest.mark.usefixtures("pool")


@pytest.fixture(scope="module")
def kernel(service, tmp_path_factory) -> Iterator[Kernel]:
    """A kernel of susan's; `pool` ends her jobs."""
    made = Kernel(tmp_path_factory.mktemp("notebook"), service, "susan")
    yield made
    made.close()


def test_the_magic_sends_a_cell_whose_job_outlives_the_kernel(kernel):
    kernel.run("from springtide.widgets import pool\nfactor = 6\ndef times(n):\n    return n * factor")
    sent = kernel.run("%%train --gpus 2 --name answer --to job\nfactor = 7\ntimes(6)")
    assert not sent.error
    assert "answer" in sent.data["text/plain"]
    assert WIDGET in sent.data
    waited = kernel.run("job.wait().result()")
    assert waited.data["text/plain"] == "42"
    assert "succeeded" in waited.text
    kernel.restart()
    again = kernel.run("from springtide.widgets import pool\npool.jobs(limit=1)[0].result()")
    assert again.data["text/plain"] == "42"


def test_what_a_notebook_defines_has_its_name_in_the_job_and_in_the_result(kernel):
    kernel.run(
        "from springtide.widgets import pool\n"
        "class Net:\n"
        "    def __init__(self, size): self.size = size\n"
        "def train(size):\n"
        "    import pickle\n"
        "    from concurrent.futures import ProcessPoolExecutor\n"
        "    from multiprocessing import get_context\n"
        "    with ProcessPoolExecutor(1, mp_context=get_context('spawn')) as workers:\n"
        "        net = workers.submit(Net, size).result()\n"
        "    return pickle.loads(pickle.dumps(net))"
    )
    done = kernel.run("net = pool.submit(train, 3).wait(quiet=True).result()\nisinstance(net, Net), net.size")
    assert done.data["text/plain"] == "(True, 3)", done.error
    celled = kernel.run(
        "%%train --to job\nimport pickle\nclass Made: pass\nlen(pickle.dumps((Net(1), Made()))) > 0"
    )
    assert not celled.error
    assert kernel.run("job.wait(quiet=True).result()").data["text/plain"] == "True"


def test_a_figure_in_a_result_is_drawn_once_where_it_is_a_value(kernel):
    kernel.run(
        "from springtide.widgets import pool\n"
        "def draw():\n"
        "    from matplotlib import pyplot\n"
        "    figure, axes = pyplot.subplots()\n"
        "    axes.plot([1, 2])\n"
        "    return figure\n"
        "job = pool.submit(draw).wait(quiet=True)"
    )
    opened = kernel.run("import pickle\npickle.loads(job.output('result.pkl'))")
    assert opened.images == 2, "what pickle alone does"
    shown = kernel.run("job.result()")
    assert (shown.images, shown.error) == (1, {})
    kept = kernel.run("figure = job.result()\nfigure.axes[0].lines[0].get_ydata().tolist()")
    assert (kept.images, kept.data["text/plain"]) == (0, "[1, 2]")
    both = kernel.run("from matplotlib import pyplot\npyplot.plot([3])\nfigure = job.result()")
    assert both.images == 1, "a figure of the cell's own is drawn"


def test_a_notebooks_function_fails_with_its_own_line(kernel):
    failed = kernel.run(
        "from springtide.widgets import pool\n"
        "def train(rate):\n"
        "    return 1 / rate  # the line\n"
        "pool.submit(train, 0).wait(quiet=True).result()"
    )
    assert failed.error["ename"] == "JobFailedError"
    words = "".join(failed.error["traceback"])
    assert "return 1 / rate  # the line" in words
    cell = int(kernel.run("len(In) - 1").data["text/plain"])
    assert f"ZeroDivisionError: division by zero (In [{cell - 1}], line 3)." in words
    assert "ipykernel" not in words
    assert "__call__" not in words
    celled = kernel.run("%%train --to job\nrate = 0\ntrain(rate) if rate else 1 / rate")
    assert not celled.error
    error = "job.wait(quiet=True).info.error"
    assert f"(In [{cell + 1}], line 3)" in kernel.run(error).data["text/plain"]
    wrong = kernel.run("\n%%train\nx = 1\ny = = 2")
    assert wrong.error["evalue"] == "The cell cannot be sent: invalid syntax in line 4."
    sent = kernel.run("job = get_ipython().run_cell_magic('train', '', 'rate = 0\\n1 / rate')")
    assert not sent.error
    assert ", line 2)" in kernel.run(error).data["text/plain"]


@pytest.mark.parametrize(
    ("cell", "kind", "words"),
    [
        ("pool.submit('python missing.py')", "CaptureError", "missing.py does not exist"),
        ("pool.submit('python', gpus=-1)", "OptionError", "gpus is -1; expected a whole number"),
        ("pool.submit(['true'], gpus=99)", "PoolError", "99"),
        ("%%train --gpu 4\n1", "OptionError", "%%train"),
        ("import threading\nlock = threading.Lock()\npool.submit(lambda: lock)", "CaptureError", "global `lock`"),
    ],
)
def test_a_mistake_is_one_sentence_without_a_traceback(kernel, cell, kind, words):
    kernel.run("%load_ext springtide.widgets\nfrom springtide.widgets import pool")
    shown = kernel.run(cell)
    assert shown.error["ename"] == kind
    (line,) = shown.error["traceback"]
    assert words in line
    assert "Traceback" not in line


@pytest.mark.parametrize("cell", ["%%train --help", "%%train -h\n", "%%train --help\n1 + 1"])
def test_the_magic_shows_its_options_with_and_without_a_cell(kernel, pool, cell):
    kernel.run("%load_ext springtide.widgets")
    before = len(pool.jobs())
    shown = kernel.run(cell)
    assert not shown.error
    assert "--gpus N" in shown.text
    assert len(pool.jobs()) == before


def test_a_cell_without_code_is_refused_by_the_magic(kernel):
    kernel.run("%load_ext springtide.widgets")
    shown = kernel.run("%%train --gpus 2")
    assert "the cell is empty" in "".join(shown.error["traceback"])


def test_interrupting_the_kernel_ends_the_waiting_only(kernel, pool):
    kernel.run("from springtide.widgets import pool\njob = pool.submit(['sleep', '600'])")
    waiting = kernel.begin("job.wait()")
    waiting.until_printed("running")
    kernel.interrupt()
    waiting.finish()
    assert waiting.error["ename"] == "WaitInterrupted"
    assert "The job continues" in "".join(waiting.error["traceback"])
    assert pool.jobs()[0].state == "running"


def test_the_pool_displays_itself(kernel):
    shown = kernel.run("from springtide.widgets import pool\npool")
    assert WIDGET in shown.data
    assert "vision" in shown.data["text/html"]


def test_jobs_run_in_the_environment_of_the_kernel_that_sends_them(service, tmp_path):
    venv = tmp_path / "nlp"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    site = next((venv / "lib").glob("python*/site-packages"))
    (site / "base.pth").write_text(f"{Path(sysconfig.get_path('purelib'))}\n")
    python = str(venv / "bin" / "python")
    (venv / "bin" / "torchrun").write_text(f"#!{python}\nimport os, sys\nos.execv(sys.executable, sys.argv)\n")
    (venv / "bin" / "torchrun").chmod(0o755)
    (tmp_path / "train.py").write_text("import os, sys; print('in', sys.prefix, os.environ['VIRTUAL_ENV'])")
    kernel = Kernel(tmp_path, service, "susan", python)
    try:
        kernel.run("from springtide.widgets import pool\nimport sys")
        for command in ("torchrun train.py", "python train.py", "bash -c 'python3 train.py'"):
            ran = kernel.run(f"print(pool.submit({command!r}).wait(quiet=True).logs())")
            assert f"in {venv} {venv}\n" in ran.text, (command, ran.text, ran.error)
        ran = kernel.run("print(pool.submit(lambda: sys.prefix).wait(quiet=True).result())")
        assert ran.text == f"{venv}\n"
        ran = kernel.run("pool.jobs(limit=1)[0].environment")
        assert f"{python} (environment nlp)" in ran.data["text/plain"]
    finally:
        kernel.close()

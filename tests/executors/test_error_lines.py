"""The error with which a job ended, in one line, from the end of its log."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from benches.local_bench import LocalBench

from springtide.scheduler.executors.base import Exit
from springtide.scheduler.executors.supervisor.error_line import LONGEST, TAIL, error_line

SCRIPT = '  File "/home/joe/project/train.py", line 12, in main\n    step(batch)\n'
LIBRARY = '  File "/opt/lib/python3.12/site-packages/torch/nn.py", line 300, in forward\n    raise error\n'
IPYTHON = """\
----------------------------------------------------
ValueError         Traceback (most recent call last)
Cell In[3], line 2
      1 x = 1
----> 2 fit(x)

File /opt/lib/python3.12/site-packages/fit.py:7, in fit(x)
----> 7     raise

ValueError: no fit
"""
GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "/home/joe/train.py", line 5, in f
  | ExceptionGroup: two (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | ValueError: a
    +------------------------------------
"""
HEADER = "Traceback (most recent call last):\n"


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (f"epoch 1\n{HEADER}{SCRIPT}ValueError: no data\n", "ValueError: no data (train.py, line 12)"),
        (
            f"{HEADER}{SCRIPT}{LIBRARY}torch.OutOfMemoryError: 2 GiB\n",
            "OutOfMemoryError: 2 GiB (train.py, line 12)",
        ),
        (f'{HEADER}  File "In [8]", line 3, in f\n    x\nKeyError: 4\n', "KeyError: 4 (In [8], line 3)"),
        (
            "  Cell In[4], line 2\n    y = = 2\n        ^\nSyntaxError: invalid syntax\n",
            "SyntaxError: invalid syntax (In [4], line 2)",
        ),
        (
            "  Cell In [1], line 2\n    return\n    ^\nIndentationError: no\n\n",
            "IndentationError: no (In [1], line 2)",
        ),
        (f"{HEADER}{LIBRARY}AssertionError\n", "AssertionError"),
        (f"{HEADER}{SCRIPT}ValueError: one\ntwo\nthree\n", "ValueError: one (train.py, line 12)"),
        (
            f"{HEADER}{SCRIPT}KeyError: 1\n\nDuring handling of it:\n\n{HEADER}{SCRIPT}OSError: b\n",
            "OSError: b (train.py, line 12)",
        ),
        (
            "".join(f"[rank1]: {line}\n" for line in f"{HEADER}{SCRIPT}ValueError: a".splitlines())
            + f"{HEADER}{LIBRARY}torch.distributed.ChildFailedError: \n=====\ntrain.py FAILED\n",
            "ValueError: a (train.py, line 12)",
        ),
        (
            IPYTHON,
            "ValueError: no fit (In [3], line 2)",
        ),
        (
            "  File \"/home/joe/bad.py\", line 1\n    def f(\n         ^\nSyntaxError: '(' was never closed\n",
            "SyntaxError: '(' was never closed (bad.py, line 1)",
        ),
        (
            "usage: train.py\ntrain.py: error: unknown: --lr\n\n",
            "It ended with exit code 2; its log ends: train.py: error: unknown: --lr",
        ),
        (
            f"{HEADER}{SCRIPT}ValueError: long ago\n" + "step\n" * 100 + "no licence\n",
            (
                "It ended with exit code 2, 101 lines after ValueError: long ago (train.py, line 12); "
                "its log ends: no licence"
            ),
        ),
        (
            f"{HEADER}{SCRIPT}ValueError: x\n" + "x\n" * 299,
            "It ended with exit code 2, 299 lines after ValueError: x (train.py, line 12); its log ends: x",
        ),
        (
            f'{HEADER}{SCRIPT}  File "/home/joe/src/springtide/training/job.py", line 9, in save\nOSError: full\n',
            "OSError: full (train.py, line 12)",
        ),
        (f"{HEADER}{SCRIPT}f.<locals>.Odd: x\n", "Odd: x (train.py, line 12)"),
        *(
            (
                f"{before}{HEADER}{SCRIPT}ValueError: CUDA out of memory\n{after}",
                "ValueError: CUDA out of memory (train.py, line 12)",
            )
            for before in ("\r 80%|####|", "epoch 3: ", "\x1b[A 5%|#|\x1b[A", "loading ", "Name? [y] ")
            for after in ("", "\r 80%|####| 8/10\n")
        ),
        (f"\r 80%|####|{GROUP}", "ExceptionGroup: two (2 sub-exceptions) (train.py, line 5)"),
        (f"\r 80%|####|{IPYTHON}", "ValueError: no fit (In [3], line 2)"),
        (
            "80%|####|  Cell In[4], line 2\n    y = = 2\n        ^\nSyntaxError: invalid syntax\n",
            "SyntaxError: invalid syntax (In [4], line 2)",
        ),
        (GROUP, "ExceptionGroup: two (2 sub-exceptions) (train.py, line 5)"),
        (
            "springtide.training.generations.GenerationError: The training went past step 3.\n",
            "GenerationError: The training went past step 3.",
        ),
        ("\x1b[31mred\x1b[0m \x07end\u202e\n", "It ended with exit code 2; its log ends: red end"),
        ("", ""),
        (" \n\n", ""),
    ],
)
def test_the_error_is_found_with_its_place_in_the_users_code(log: str, line: str) -> None:
    assert error_line(log, 2) == line


def test_the_lines_of_a_long_message_do_not_hide_its_error() -> None:
    parameters = "\tsize mismatch for layer.weight: copying a param with shape [2].\n" * 300
    log = f"{HEADER}{SCRIPT}RuntimeError: Error(s) in loading state_dict for Net:\n{parameters}"
    assert error_line(log, 1) == "RuntimeError: Error(s) in loading state_dict for Net (train.py, line 12)"
    assert len(log) < TAIL


@pytest.mark.parametrize("word", ["x" * 100_000, "ValueError: " + "y" * 100_000])
def test_a_long_error_is_cut_and_keeps_its_place(word: str) -> None:
    assert len(error_line(word, 2)) <= LONGEST
    line = error_line(f"{HEADER}{SCRIPT}{word}\n", 2)
    assert len(line) <= LONGEST
    assert line.endswith("(train.py, line 12)") or word.startswith("x")


def test_the_error_of_a_real_program_is_found(tmp_path: Path) -> None:
    script = tmp_path / "fit.py"
    script.write_text("import json\n\ndef load():\n    return json.loads('{')\n\nload()\n")
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert error_line(f"\r 80%|####|{ended.stderr}", 2) == error_line(ended.stderr, 2)
    line = error_line(ended.stderr, 2)
    assert line.startswith("JSONDecodeError: Expecting property name")
    assert line.endswith("(fit.py, line 4)")


async def test_an_attempt_ends_with_the_error_of_its_log(bench: LocalBench) -> None:
    ended = await _ended(bench, "print('on')\nraise ValueError('no data')")
    assert (ended.code, ended.detail) == (1, "ValueError: no data")


@pytest.mark.parametrize("code", ["print('done')", "raise SystemExit(75)", "raise SystemExit(1)"])
async def test_an_attempt_without_an_error_has_none(bench: LocalBench, code: str) -> None:
    ended = await _ended(bench, code)
    assert ended.detail == ""


async def _ended(bench: LocalBench, code: str) -> Exit:
    spec = bench.code(code)
    await bench.executor.launch(spec)
    ended = (await bench.gone(spec.key)).exit
    assert ended is not None
    return ended

"""What a dry run says about a pause: by the text of the program, without a claim that the text cannot bear."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from springtide.scheduler.capture.command import Captured
from springtide.scheduler.capture.pauses import pause_words, signs_of
from springtide.scheduler.capture.project import Project
from springtide.scheduler.project_tree import TreeFile
from springtide.scheduler.wire import Submission


def words_of(argv: list[str], files: dict[str, str], cwd: str = "/work", **more: Any) -> str:
    """Return what is said about a command in a project with these files."""
    project = Project(Path("/work"), {path: TreeFile(text.encode()) for path, text in files.items()})
    captured = Captured("command", "train", tuple(argv), {}, cwd, project=project)
    return pause_words(Submission(argv=argv, **more), captured)


def said(text: str, **more: Any) -> str:
    files = {"train.py": text, **more.pop("files", {})}
    return words_of(["/usr/bin/python", "{project_tree}/train.py"], files, **more)


@pytest.mark.parametrize(
    ("text", "sign"),
    [
        ("from springtide.training import current_job", "springtide.training"),
        ("from springtide.training.adapters.lightning import Pause", "springtide.training"),
        ("import lightning as L\nL.Trainer().fit(model, ckpt_path='last')", "Lightning's ckpt_path"),
        ("trainer.train(resume_from_checkpoint=True)", "Transformers' resume_from_checkpoint"),
        ("trainer_utils.get_last_checkpoint('out')", "get_last_checkpoint"),
        ("keras.callbacks.BackupAndRestore('backup')", "Keras' BackupAndRestore"),
        ("accelerator.load_state()", "Accelerate's load_state"),
        ("import torch\nif found: torch.load('a.pt')\ntorch.save({}, 'a.pt')", "torch.load and torch.save"),
    ],
)  # fmt: skip
def test_signs_that_a_program_resumes(text: str, sign: str) -> None:
    words = said(text)
    assert words.startswith("Signs that train.py resumes after a pause: ")
    assert sign in words
    assert words.endswith("Whether it does is not checked.")


def test_a_program_without_signs_would_start_again() -> None:
    assert said("print('x')") == (
        "No sign of checkpoints found in train.py: a pause would start it again from the beginning."
    )


def test_an_argument_that_a_framework_resumes_by_is_named_for_the_option_resume() -> None:
    text = "parser.add_argument('--ckpt_path')\ntrainer.fit(model, ckpt_path=args.ckpt_path)"
    assert said(text).startswith("train.py knows --ckpt_path: name its arguments in the option resume")
    argv = ["/usr/bin/python", "{project_tree}/train.py", "--ckpt_path", "last.ckpt"]
    assert words_of(argv, {"train.py": text}).startswith("Signs that train.py resumes after a pause: Lightning's")


def test_a_program_that_only_reports_would_start_again() -> None:
    reports = "from springtide.training import current_job\njob = current_job()\njob.report(step=1, loss=2.0)\n"
    assert said(reports).startswith("No sign of checkpoints found in train.py: ")
    assert said(f"{reports}job.restore()").startswith("Signs that train.py resumes after a pause: ")


def test_a_study_of_optuna_in_memory_would_start_again() -> None:
    words = said("import optuna\nstudy = optuna.create_study()\nstudy.optimize(train, n_trials=100)")
    assert words == "No sign of checkpoints found in train.py: a pause would start it again from the beginning."


def test_a_program_that_only_saves_may_lose_its_work() -> None:
    assert said("import torch\ntorch.save(model, 'model.pt')") == (
        "train.py saves by torch.save, with no sign that it loads that again: a pause may lose its work."
    )


def test_an_option_to_resume_is_named_with_the_way_to_use_it() -> None:
    words = said("parser.add_argument('--resume', default='')")
    assert words.startswith("train.py knows --resume: ")
    assert "the option resume, such as “--resume {checkpoint}”" in words


READS_AND_WRITES = {
    "a constant": "if os.path.exists('c.npz'):\n    state = np.load('c.npz')\nnp.savez('c.npz', w=w)",
    "a suffix that numpy adds": "np.load('c.npz')\nnp.savez('c', w=w)",
    "a name": "FILE = 'c.npz'\ndef load():\n    return np.load(FILE)\ndef save():\n    np.savez(FILE, w=w)",
    "open files": "with open('c.npz', 'rb') as f:\n    s = pickle.load(f)\n"
    "with open('c.npz', 'wb') as f:\n    pickle.dump(s, f)",
    "a path object": "file = Path('c.npz')\ns = json.loads(file.read_text())\nfile.write_text(json.dumps(s))",
    "a file that is moved": "s = np.load('c.npz')\nnp.savez('tmp.npz', w=w)\nos.replace('tmp.npz', 'c.npz')",
    "the default of an option": "p.add_argument('--out-file', default='c.npz')\n"
    "np.load(args.out_file)\nnp.savez('c.npz')",
    "parameters": "def load(path):\n    return np.load(path)\ndef keep(path, w):\n    np.savez(path, w=w)\n"
    "f = 'c.npz'\nload(f)\nkeep(f, 1)",
    "a mode for both": "open('c.npz', 'a+')",
}


@pytest.mark.parametrize("text", READS_AND_WRITES.values(), ids=READS_AND_WRITES)
def test_a_file_that_the_program_both_reads_and_writes_is_a_sign(text: str) -> None:
    assert said(text) == (
        "Signs that train.py resumes after a pause: it both reads and writes “c.npz”. "
        "Whether it does is not checked."
    )


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("p.add_argument('--out')\nf = Path(args.out) / 'c.npz'\nnp.load(f)\nnp.savez(f)", "--out/c.npz"),
        ("sqlite3.connect('study.db')", "study.db"),
        ("f = f\"{os.environ['OUT']}/c\"\nopen(f)\nopen(f, 'w')", "os.environ['OUT']/c"),
    ],
)
def test_such_a_file_is_named_as_far_as_it_is_known(text: str, path: str) -> None:
    assert f"reads and writes “{path}”" in said(text)


@pytest.mark.parametrize(
    "text",
    [
        "f = max(glob('c-*.npz'))\nnp.load(f)\nnp.savez(f'c-{step()}.npz', w=w)",
        "for f in files:\n    open(f)\nopen('c', 'w')",
    ],
)
def test_of_files_with_names_that_are_not_in_the_text_nothing_is_claimed(text: str) -> None:
    assert said(text) == (
        "train.py reads and writes files, and not all of their names are in its text, so whether it resumes after "
        "a pause is not known. If it does not, a pause starts it again from the beginning."
    )


@pytest.mark.parametrize(
    "text",
    [
        "data = pd.read_csv('data.csv')\nopen('result.json', 'w').write('x')",
        "with open('a') as f:\n    f.read(10)\nwith open('b', 'w') as g:\n    g.write('a')",
        "text.replace('a', 'b')\nmodel.load_state_dict(state)\njson.dump({}, open('a', 'w'))",
        "def save(path):\n    open(path, 'w')\nsave('a')\nsave('b')\nopen('c')",
    ],
)
def test_other_files_are_no_sign(text: str) -> None:
    assert said(text).startswith("No sign of checkpoints found in train.py: ")


def test_a_handler_of_its_own_is_named() -> None:
    text = "import signal\nsignal.signal(signal.SIGTERM, stop)"
    assert signs_of(text).handles_sigterm
    assert "a handler of its own for SIGTERM" in said(text)
    assert "unless that saves, a pause would start it again" in said(text)
    assert not signs_of("import signal\nsignal.signal(signal.SIGINT, stop)").handles_sigterm


def test_modules_that_the_script_imports_count_and_others_beside_it_do_not() -> None:
    library = {"engine.py": "import springtide.training", "other.py": "import springtide.training"}
    assert "Signs that train.py" in said("import engine", files=library)
    assert "No sign" in said("print()", files=library)


def test_what_the_options_say_comes_first() -> None:
    assert said("print()", resume="--resume last.pt") == (
        "If it has saved something, it runs again with “--resume last.pt”."
    )
    assert said("print()", priority=100) == "It is not paused for others."
    assert said("print()", gpus=0) == "It is not paused for others."


def test_nothing_is_claimed_of_a_program_whose_text_is_unknown() -> None:
    words = words_of(["/opt/bin/trainer", "x"], {"train.py": "import springtide.training"})
    assert words.startswith("Only Python is read for signs of checkpoints, so whether trainer resumes")
    assert "whether run.sh resumes" in words_of(["/bin/bash", "run.sh"], {})


@pytest.mark.parametrize("text", ["def broken(:", "\0", "(" * 5000])
def test_text_that_is_no_python_is_no_sign(text: str) -> None:
    assert "No sign of checkpoints" in said(text)


@pytest.mark.parametrize(
    ("argv", "place"),
    [
        (["python", "{project_tree}/scripts/train.py"], "scripts/train.py"),
        (["python", "-m", "vision.train"], "vision/train.py"),
        (["torchrun", "--nproc-per-node", "2", "-m", "vision.train"], "vision/train.py"),
    ],
)
def test_the_program_is_found_in_its_project(argv: list[str], place: str) -> None:
    files = {place: "import library", "src/library.py": "import springtide.training"}
    assert words_of(argv, files).startswith(f"Signs that {place} resumes")


@pytest.mark.parametrize(
    "argv",
    [
        ["python", "train.py"],
        ["python", "./train.py"],
        ["python", "-m", "train"],
        ["torchrun", "../code/train.py"],
        ["python", "{project_tree}/code/train.py"],
    ],
)
def test_a_program_below_the_root_is_the_one_of_the_working_directory(argv: list[str]) -> None:
    files = {
        "code/train.py": "import library",
        "code/library.py": "import springtide.training",
        "train.py": "import torch\ntorch.save(1, 'a.pt')",
    }
    said = "Signs that code/train.py resumes after a pause: springtide.training. Whether it does is not checked."
    assert words_of(argv, files, "/work/code") == said


def test_a_notebook_is_read_by_its_cells() -> None:
    argv = ("python", "x.ipynb")
    cells = "%matplotlib inline\nimport springtide.training"
    notebook = Captured("notebook", "study", argv, {}, "/work", source=cells)
    assert "Signs that study resumes" in pause_words(Submission(argv=list(argv), kind="notebook"), notebook)

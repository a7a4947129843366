"""Jobs run the code and values of the moment of submission."""

import functools
import importlib
import inspect
import json
import pickle
import socket
import sys
import threading
from pathlib import Path

import nbformat
import pytest
from jobs.payloads import content_of
from jobs.project_copies import run_copy

from springtide.scheduler.capture import Here, submission
from springtide.scheduler.client.transport import encoded
from springtide.scheduler.wire import MAX_NAME
from springtide.training.job import Job as TrainingJob
from springtide.widgets.errors import CaptureError
from springtide.widgets.job import Job
from springtide.widgets.shared_pool import Pool
from springtide.widgets.submission.capture import capture, capture_cell
from springtide.widgets.submission.options import check_size

EMPTY = nbformat.writes(nbformat.v4.new_notebook())


@pytest.fixture
def here(tmp_path):
    return Here(tmp_path)


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module into the working directory and import it."""
    monkeypatch.syspath_prepend(tmp_path)
    names = []

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        importlib.invalidate_caches()
        names.append(name)
        return importlib.import_module(name)

    yield write
    for name in names:
        sys.modules.pop(name, None)


def run(captured, tmp_path):
    """Run captured work the way a job does, in a process of its own; the words of its result or output."""
    job = tmp_path.with_name(f"{tmp_path.name} job")
    done = run_copy(captured, job, SPRINGTIDE_OUTPUT_DIR=str(job))
    assert done.returncode == 0, done.stderr
    if captured.kind == "command":
        return done.stdout.split()
    return str(pickle.loads((job / "result.pkl").read_bytes())).split()


# ---------- commands


named_lambda = lambda x: x  # noqa: E731


def adds(a, b):
    return a + b


@pytest.mark.parametrize(
    ("work", "arguments", "name"),
    [
        (adds, (1, 2), "adds"),
        (functools.partial(adds, 1), (2,), "adds"),
        (named_lambda, (1,), "named_lambda"),
        (functools.partial(named_lambda, 1), (), "named_lambda"),
    ],
)
def test_a_job_is_named_after_its_function(here, work, arguments, name):
    assert capture(work, arguments, {}, here).name == name


@pytest.mark.parametrize("blank", ["", " ", "\t\n "])
def test_a_name_of_nothing_but_spaces_is_none(here, blank):
    for work, arguments, name in ((adds, (1, 2), "adds"), (["true"], (), "true")):
        captured = capture(work, arguments, {}, here)
        assert submission(captured, {"name": blank}, here=here).name == name
    assert submission(captured, {"name": " a b "}, here=here).name == "a b"


def test_a_lambda_without_a_name_is_called_so(here):
    assert capture(lambda: 1, (), {}, here).name == "lambda"


@pytest.mark.parametrize(
    ("stem", "name"), [("n" * 200, "n" * MAX_NAME), ("of\ntwo lines", "oftwo lines"), ("ß" * 120, "ß" * 120)]
)
@pytest.mark.parametrize("suffix", [".py", ".ipynb"])
def test_a_file_whose_name_is_no_name_of_a_job_is_sent_under_what_can_be_one(here, tmp_path, stem, name, suffix):
    (tmp_path / f"{stem}{suffix}").write_text(EMPTY)
    captured = capture(f"{stem}{suffix}" if suffix == ".ipynb" else ["python", f"{stem}{suffix}"], (), {}, here)
    assert submission(captured, {}, here=here).name == name
    assert submission(captured, {"name": "short"}, here=here).name == "short"


@pytest.mark.parametrize(
    ("work", "said"),
    [
        ([], "The command is empty; expected the words of one"),
        (b"ls", "A job is a function, a command or a notebook; b'ls' is a bytes."),
    ],
)
def test_what_is_no_command_is_repeated_as_it_was_given(here, work, said):
    with pytest.raises(CaptureError) as refused:
        capture(work, (), {}, here)
    assert str(refused.value).startswith(said)


def test_what_is_no_work_is_named_with_its_type(here):
    with pytest.raises(CaptureError, match="42 is an int"):
        capture(42, (), {}, here)  # type: ignore[arg-type] # that is the test


def test_a_script_runs_as_it_was_when_it_was_submitted(here, tmp_path):
    (tmp_path / "helper.py").write_text("WORD = 'before'")
    (tmp_path / "train.py").write_text("import helper, sys, os\nprint(helper.WORD, sys.argv[1], os.getcwd())")
    captured = capture("python train.py --epochs=3", (), {}, here)
    (tmp_path / "helper.py").write_text("WORD = 'after'")
    (tmp_path / "train.py").write_text("raise SystemExit(1)")
    assert captured.argv == (sys.executable, "train.py", "--epochs=3")
    assert captured.name == "train"
    copy = tmp_path.with_name(f"{tmp_path.name} job") / "work" / tmp_path.name
    assert run(captured, tmp_path) == ["before", "--epochs=3", *str(copy).split()]


def test_a_script_in_a_directory_brings_what_lies_beside_it(here, tmp_path):
    (tmp_path / "my project").mkdir()
    (tmp_path / "my project" / "settings.json").write_text('{"word": "tide"}')
    text = "import json, pathlib\nbeside = pathlib.Path(__file__).with_name('settings.json')\n"
    text += "print(json.loads(beside.read_text())['word'])"
    (tmp_path / "my project" / "train.py").write_text(text)
    captured = capture(["python", "my project/train.py"], (), {}, here)
    assert captured.cwd == str(tmp_path)
    assert run(captured, tmp_path) == ["tide"]


def test_a_module_of_the_working_directory_is_caught(here, tmp_path):
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "train.py").write_text("print('before')")
    captured = capture("python -m pack.train", (), {}, here)
    (tmp_path / "pack" / "train.py").write_text("print('after')")
    assert run(captured, tmp_path) == ["before"]


def test_a_launcher_gets_the_caught_script(here, tmp_path):
    (tmp_path / "train.py").write_text("")
    captured = capture("torchrun --nproc-per-node 4 train.py --lr 0.1 other.py", (), {}, here)
    assert captured.argv == ("torchrun", "--nproc-per-node", "4", "train.py", "--lr", "0.1", "other.py")


def test_a_script_named_by_itself_runs_by_its_first_line(here, tmp_path):
    (tmp_path / "train.sh").write_text("#!/bin/sh\necho $1\n")
    captured = capture("./train.sh tide", (), {}, here)
    assert captured.argv == ("/bin/sh", "./train.sh", "tide")
    assert run(captured, tmp_path) == ["tide"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python trian.py", r"trian\.py does not exist.* has “train\.py”\."),
        ("python .", "is a directory"),
        ("python 'train.py", "cannot be read"),
        ("", "is empty"),
        ("python train.py | tee log", r"without a shell.*bash"),
        ("python train.py; echo second", r"without a shell, so “;” means nothing.*bash"),
        ("python train.py >out.txt", r"without a shell, so “>” means nothing.*bash"),
        ("python train.py 2>&1", r"without a shell, so “2>” means nothing.*bash"),
        ("python train.py& echo", r"without a shell, so “&” means nothing.*bash"),
        ("python ~/train.py", r"without a shell, so “~”.* stay as they are: write the path out"),
        ("python $HOME/train.py", r"without a shell, so .* stay as they are: write the path out"),
        ("python *.py", r"without a shell, so .* stay as they are: write the path out"),
        ("missing.ipynb", "does not exist"),
        ("broken.ipynb", "not a notebook"),
        (3, "int"),
        ([1, 2], "list of texts"),
    ],
)
def test_a_command_that_cannot_run_is_refused_in_words(here, tmp_path, command, words):
    (tmp_path / "train.py").write_text("")
    (tmp_path / "broken.ipynb").write_text("[]")
    with pytest.raises(CaptureError, match=words):
        capture(command, (), {}, here)


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("python train.py ~/data", "“~/data” is passed as it is: "),
        ('python train.py "$HOME/data" *.csv', "“$HOME/data” and “*.csv” are passed as they are: "),
        ("python train.py `date` ${A}", "“`date`” and “${A}” are passed as they are: "),
        ("python train.py '$HOME' \"a;\" 'b | c' d\\; '*' \\~ ';' --cost=5$ http://x.org/?a=1", None),
        ("python train.py odd*.txt", None),
        (["python", "train.py", "$HOME", "*.py"], None),
    ],
)
def test_words_that_a_shell_would_expand_are_passed_as_they_are_which_a_note_says(here, tmp_path, command, named):
    for name in ("train.py", "odd*.txt"):
        (tmp_path / name).write_text("")
    captured = capture(command, (), {}, here)
    notes = [note for note in captured.notes if "without a shell" in note]
    assert [note.startswith(named or "") for note in notes] == ([True] if named else [])


def test_a_command_takes_no_arguments_beside_itself(here):
    with pytest.raises(CaptureError, match="Only a function takes arguments"):
        capture("python train.py", (3,), {}, here)


# ---------- functions


def test_a_function_travels_with_its_closure_and_arguments(here, tmp_path):
    factor = [3]

    def scale(value, *, plus):
        return value * factor[0] + plus

    captured = capture(scale, (2,), {"plus": 1}, here)
    factor[0] = 100
    assert captured.name == "scale"
    assert "def scale" in captured.source
    assert {name: each.value for name, each in captured.arguments.items()} == {"value": 2, "plus": 1}
    assert captured.argv == (sys.executable, "-m", "springtide.training.run", "function", "{code}/payload.pkl")
    call = content_of(captured.files["payload.pkl"])
    assert call["function"](*call["args"], **call["kwargs"]) == 7


def test_a_module_in_the_working_directory_travels_by_value(here, tmp_path, module):
    helper = module("by_value_helper", "def word(): return 'before'\n")
    captured = capture(helper.word, (), {}, here)
    (tmp_path / "by_value_helper.py").write_text("def word(): return 'after'\n")
    assert run(captured, tmp_path) == ["before"]


def test_a_module_imported_inside_the_function_is_caught_unimported(here, tmp_path, module):
    (tmp_path / "deep_helper.py").write_text("WORD = 'before'")
    (tmp_path / "late_helper.py").write_text("from deep_helper import WORD")
    main = module("late_main", "def word():\n    import late_helper\n    return late_helper.WORD\n")
    captured = capture(main.word, (), {}, here)
    (tmp_path / "deep_helper.py").write_text("WORD = 'after'")
    assert run(captured, tmp_path) == ["before"]


def test_of_several_modules_the_one_that_cannot_be_pickled_goes_along_as_a_file(here, tmp_path, module):
    lock = "import threading\nLOCK = threading.Lock()\n"
    module("locked_helper", f"{lock}def word():\n    with LOCK:\n        return 'before'\n")
    module("locked_beside", f"{lock}def word(): return 'memory'\n")
    module("locked_unused", lock)
    main = module(
        "locked_main",
        "import locked_helper, locked_beside\n"
        "def word(): return locked_helper.word() + ' ' + locked_beside.word()\n",
    )
    (tmp_path / "locked_beside.py").write_text("def word(): return 'file'\n")
    captured = capture(main.word, (), {}, here)
    (tmp_path / "locked_helper.py").write_text("def word(): return 'after'\n")
    assert captured.notes[0] == "locked_helper was copied with the job, as it is now."
    assert run(captured, tmp_path) == ["before", "memory"]


@pytest.mark.parametrize(
    "use",
    [
        "import ef.b\ndef fa(): return ef.b.fb()",
        "from . import b\ndef fa(): return b.fb()",
        "import ef.b as c\ndef fa(): return c.fb()",
        "from .b import fb\ndef fa(): return fb()",
        "import ef\ndef fa(): return ef.inner.fb()",
        "import ef\ndef fa(): return ef.again()",
        "def fa():\n    import ef.b\n    return ef.b.fb()",
        "def fa():\n    from .b import fb\n    return fb()",
        "def fa():\n    import importlib\n    return importlib.import_module('ef.b').fb()",
        "import ef.b\ndef fa(): return getattr(ef.b, 'fb')()",
        "import ef.b\ndef fa(): return ef.b.WORD",
        "import ef.b\nALIAS = {'b': ef.b}\ndef fa(): return ALIAS['b'].fb()",
        "import ef.b\nclass A:\n    b = ef.b\n    def f(self): return self.b.fb()\ndef fa(): return A().f()",
    ],
)
def test_what_a_function_uses_of_modules_is_that_of_the_notebooks_memory(here, tmp_path, monkeypatch, use):
    package = tmp_path / "ef"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from . import b as inner\nfrom .b import fb as again\nfrom .a import fa\n"
    )
    (package / "b.py").write_text("WORD = 'old'\ndef fb(): return WORD\n")
    (package / "a.py").write_text(use)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    try:
        function = importlib.import_module("ef").fa
        (package / "b.py").write_text("WORD = 'NEW'\ndef fb(): return WORD\n")
        captured = capture(function, (), {}, here)
    finally:
        for name in ("ef", "ef.a", "ef.b"):
            sys.modules.pop(name, None)
    assert not any("copied with the job" in note for note in captured.notes)
    assert run(captured, tmp_path) == ["old"]


def test_what_cannot_be_pickled_is_named_by_its_path(here):
    class Reader:
        def __init__(self) -> None:
            self.lock = threading.Lock()

    readers = {"first": [Reader()]}

    def train():
        return readers

    with pytest.raises(CaptureError) as caught:
        capture(train, (), {}, here)
    message = str(caught.value)
    assert "train → variable `readers` → ['first'] → [0] → attribute `lock` is a _thread.lock" in message
    assert "inside the function" in message


def test_an_argument_that_cannot_be_pickled_is_named(here):
    def train(connection):
        return connection

    with (
        socket.socket() as connection,
        pytest.raises(CaptureError, match=r"train's argument `connection`.*socket"),
    ):
        capture(train, (), {"connection": connection}, here)


def test_arguments_that_do_not_fit_are_refused_at_once(here):
    def train(epochs):
        return epochs

    with pytest.raises(CaptureError, match=r"train\(epochs\) has no argument “gpu”\."):
        capture(train, (), {"epochs": 3, "gpu": 4}, here)
    with pytest.raises(CaptureError, match=r"train\(epochs\) has no argument “gpu”\."):
        capture(train, (), {"gpu": 4}, here)
    with pytest.raises(CaptureError, match=r"train\(epochs\) cannot be called like this.*'epochs'"):
        capture(train, (), {}, here)


def test_a_value_that_an_annotation_does_not_allow_is_refused_at_once(here):
    def train(epochs: int, rate: float = 0.1):
        return epochs

    with pytest.raises(CaptureError, match=r"epochs is 2\.5; expected a whole number\. See train\(epochs"):
        capture(train, (2.5,), {}, here)
    with pytest.raises(CaptureError, match=r"rate is “high”; expected a number\."):
        capture(train, (2,), {"rate": "high"}, here)
    fine = capture(train, (True,), {"rate": 1}, here).arguments
    assert {name: each.value for name, each in fine.items()} == {"epochs": True, "rate": 1}


def test_a_parameter_may_be_called_like_those_of_the_call_itself(here, tmp_path):
    namespace = {"__name__": "__main__"}
    exec("def f(self, function, args): return self, function, args", namespace)
    captured = capture(namespace["f"], (), {"self": 5, "function": 6, "args": 7}, here)
    assert run(captured, tmp_path) == ["(5,", "6,", "7)"]


@pytest.mark.parametrize("owner", [Pool, Job, TrainingJob])
def test_a_keyword_for_others_may_be_called_self(owner):
    methods = [each for name, each in vars(owner).items() if not name.startswith("_") and callable(each)]
    signatures = [list(inspect.signature(method).parameters.values()) for method in methods]
    open_ones = [each for each in signatures if each and each[-1].kind is inspect.Parameter.VAR_KEYWORD]
    assert open_ones
    assert {(own[0].name, own[0].kind) for own in open_ones} == {("self", inspect.Parameter.POSITIONAL_ONLY)}


# ---------- cells


def cell(text, here, **namespace: object):
    namespace["__name__"] = "__main__"
    return capture_cell(text, namespace, {"hidden"}, here), namespace


def test_a_cell_takes_the_variables_it_reads_and_no_others(here, tmp_path):
    text = "import math\ntotal = 0\nfor value in values:\n    total += value * factor\ntotal"
    captured, _ = cell(text, here, values=[1, 2], factor=10, total=threading.Lock(), other=object, hidden=1)
    assert captured.notes == ("Sent with the cell: factor, values.",)
    assert run(captured, tmp_path) == ["30"]


def test_a_cell_and_the_functions_it_calls_share_their_globals(here, tmp_path):
    namespace = {"__name__": "__main__", "threshold": 1}
    exec("def above(value): return value > threshold", namespace)
    captured = capture_cell("threshold = 5\nabove(3), above(7)", namespace, (), here)
    assert run(captured, tmp_path) == ["(False,", "True)"]


def test_a_cell_may_await(here, tmp_path):
    captured, _ = cell("import asyncio\nawait asyncio.sleep(0, 'tide')", here)
    assert run(captured, tmp_path) == ["tide"]


def test_a_cell_without_a_last_expression_has_no_result(here, tmp_path):
    assert run(cell("word = 'tide'", here)[0], tmp_path) == ["None"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1\ndef broken(:", "line 2"),
        ("1\n!pip install x", r"line 2, “!pip install x”, is a shell or magic line.*subprocess\.run"),
        ("if lock:\n    %cd there", "line 2, “%cd there”, is a shell or magic line"),
        ("1\nfiles = !ls", "line 2, “files = !ls”, is a shell or magic line"),
        (
            "%matplotlib inline\nif lock:\n    !ls\ntext = '''\n!no\n'''",
            r"line 1 \(“%matplotlib inline”\) and line 3 \(“!ls”\) are shell or magic lines",
        ),
        ("%%bash\necho it's", "line 1, “%%bash”, is a shell or magic line.*send the whole notebook"),
        ("1\nx = 7 % % 3", "invalid syntax in line 2"),
        ("1\nx?", "line 2, “x\\?”, is a line of IPython, no Python, which only notebooks run. Leave it out"),
        ("?print", "line 1, “\\?print”, is a line of IPython"),
        ("np.arr*??\n!ls", r"line 1 \(“np.arr\*\?\?”\) and line 2 \(“!ls”\) are lines of IPython"),
        ("1\n/print 1", "line 2, “/print 1”, is a line of IPython"),
        ("def f():\n    return get_ipython().user_ns\nf()", r"line 2 calls get_ipython\(\), the shell of a noteb"),
        ("lock", "the cell's variable `lock` is a _thread.lock"),
    ],
)
def test_a_cell_that_cannot_be_sent_says_why(here, text, words):
    with pytest.raises(CaptureError, match=words):
        cell(text, here, lock=threading.Lock())


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    shell = get_ipython()\nexcept NameError:\n    shell = 'none'\nshell",
        "if 'get_ipython' in globals():\n    get_ipython()",
        "def get_ipython():\n    return 'none'\nget_ipython()",
    ],
)
def test_a_cell_that_can_do_without_a_shell_is_sent(here, text):
    assert cell(text, here)


def test_the_code_of_a_notebook_displays_objects_into_the_log_of_its_job(here, tmp_path):
    captured, _ = cell("import builtins\ndisplay('tide', 3)\nbuiltins.display is display", here)
    job = tmp_path / "job"
    done = run_copy(captured, job, SPRINGTIDE_OUTPUT_DIR=str(job))
    assert (done.returncode, done.stdout) == (0, "tide 3\n"), done.stderr


# ---------- notebooks


def test_a_notebook_is_sent_as_saved_with_its_project(here, tmp_path):
    (tmp_path / "helper.py").write_text("")
    (tmp_path / "unrelated.py").write_text("")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("import helper\n1 + 1")])
    (tmp_path / "story.ipynb").write_text(nbformat.writes(notebook))
    captured = capture(Path("story.ipynb"), (), {}, here)
    (tmp_path / "story.ipynb").unlink()
    assert captured.project is not None
    assert set(captured.project.files) == {"helper.py", "story.ipynb", "unrelated.py"}
    assert captured.argv[-2:] == ("notebook", "{project_tree}/story.ipynb")
    assert captured.source == "import helper\n1 + 1"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"metadata": {"kernelspec": 5}}, "“5 is not of type 'object'” at metadata.kernelspec"),
        ({"metadata": None}, "“None is not of type 'object'” at metadata"),
        ({"cells": [{"cell_type": "code", "source": "1"}]}, "“'metadata' is a required property” at cells[0]"),
        ({"cells": 3}, "is not a valid notebook"),
        ({"nbformat": 5}, "is not a notebook of format 4 or an older one"),
    ],
)
def test_a_notebook_that_cannot_run_is_refused_with_its_mistake(tmp_path, change, said):
    (tmp_path / "study.ipynb").write_text(json.dumps({**json.loads(EMPTY), **change}))
    with pytest.raises(CaptureError) as refused:
        capture("study.ipynb", (), {}, Here(tmp_path))
    assert said in str(refused.value)
    assert str(refused.value).startswith("study.ipynb is not a ")


def test_a_notebook_without_metadata_is_refused(tmp_path):
    (tmp_path / "study.ipynb").write_text('{"nbformat": 4, "nbformat_minor": 5, "cells": []}')
    with pytest.raises(CaptureError, match="'metadata' is a required property"):
        capture("study.ipynb", (), {}, Here(tmp_path))


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("kind", ["mark", "old", "kernel", "ids"])
def test_what_nbformat_can_repair_is_sent_as_the_runner_reads_it(tmp_path, kind, in_place):
    code = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": "6 * 7"}
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{**code, "id": "a"}]}
    if kind == "ids":
        notebook["cells"] = [code, {**code, "id": "b"}, {**code, "id": "b"}]
    if kind == "kernel":
        notebook["metadata"] = {"kernelspec": {"name": "python3"}}
    if kind == "old":
        cell = {"cell_type": "code", "language": "python", "input": "6 * 7", "outputs": [], "metadata": {}}
        notebook = {"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": [cell]}]}
    mark = "\ufeff" if kind == "mark" else ""
    (tmp_path / "study.ipynb").write_text(mark + json.dumps(notebook))
    captured = capture("study.ipynb", (), {}, Here(tmp_path, in_place=in_place))
    files = captured.files if captured.project is None else captured.project.files
    content = files["study.ipynb"] if captured.project is None else files["study.ipynb"].content
    sent = nbformat.reads(content.decode(), as_version=4)
    nbformat.validate(sent)
    assert {cell.source for cell in sent.cells} == {"6 * 7"}


def test_the_open_notebook_warns_of_unsaved_changes(tmp_path):
    (tmp_path / "story.ipynb").write_text(EMPTY)
    captured = capture("story.ipynb", (), {}, Here(tmp_path, notebook=tmp_path / "story.ipynb"))
    assert "changes made after that are not part of it" in captured.notes[0]


# ---------- size


def test_a_job_over_the_size_cap_names_what_is_large(here):
    def train(data, rate):
        return data, rate

    captured = capture(train, (b"x" * 2**21, 0.1), {}, here)
    request = submission(captured, {"gpus": 4}, "key")
    with pytest.raises(CaptureError, match=r"Largest: argument 1 2\.0 MiB, .*its path"):
        check_size(request, len(encoded(request)), 2**20, captured.sizes)
    check_size(request, len(encoded(request)), 2**22, captured.sizes)

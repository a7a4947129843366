"""The form: its fields come from the table of options, its words from the pool and the function."""

from __future__ import annotations

import importlib
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ipywidgets
import msgspec
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from springtide.scheduler.wire import OPTIONS, PresetView, Problem, Surface, Wish
from springtide.scheduler.wire.form_fields import COMMON, filled, form_of, typed_options
from springtide.scheduler.wire.presets import checked_preset, preset_words, values_of
from springtide.scheduler.wire.presets import filled as filled_by_preset
from springtide.scheduler.wire.submission import JobOptions, offered
from springtide.widgets.display.document import FORM_TYPE
from springtide.widgets.errors import OptionError
from springtide.widgets.form.arguments import call_of, described, parse_arguments
from springtide.widgets.form.preview import cell_preview
from springtide.widgets.form.review import Review, question, refused
from springtide.widgets.shared_pool import FormAnswer, Pool, backend_of

Ask = Callable[..., Any]


def learn(rate: float, /, *layers: int, epochs: int = 3, name: str = "x") -> tuple[object, ...]:
    """Learn something.

    At length.
    """
    return rate, layers, epochs, name


def double(number: int, factor: int = 2) -> int:
    return number * factor


@pytest.fixture
def ask(pool: Pool, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Ask the kernel of a notebook with a function."""
    monkeypatch.setattr(double, "__module__", "__main__")
    backend = backend_of(pool, lambda: {"double": double, "count": 21, "_hidden": double, "wrap": textwrap.wrap})

    def ask(do: str, **more: object) -> Any:
        answer = backend.answer({"do": do, **more})
        return answer["error"] or answer["value"]

    return ask


# ---------- fields


def test_every_option_has_a_field_with_its_label_help_and_default(ask: Ask) -> None:
    fields = {field["name"]: field for field in ask("form")["fields"]}
    of_others = {"preset", "image", "gpu_types", "datasets", "secrets"}
    names = {option.name for option in offered(Surface.FORM)}
    assert fields.keys() == names - of_others, "one machine, one GPU type, no presets, datasets, secrets"
    assert [name for name, field in fields.items() if field["common"]] == [
        each for each in COMMON if each in fields
    ]
    for name, field in fields.items():
        assert field["help"] == OPTIONS[name].help
        assert field["value"] or field["placeholder"] or field["choices"][0]["words"], f"{name} shows no default"
    assert fields["gpus"]["value"] == "1"
    assert [choice["words"] for choice in fields["priority"]["choices"]] == [
        "train (50)",
        "high (75)",
        "critical (100)",
    ]


def test_the_default_project_is_chosen_at_first_and_one_that_was_left_has_to_be_replaced(
    pool_of: Callable[[str], Pool],
) -> None:
    anna = pool_of("anna").me
    assert [each.name for each in anna.projects] == ["vision", "speech"]

    def project(default: str | None) -> tuple[str, list[str]]:
        form = form_of(msgspec.structs.replace(anna, default_project=default), [])
        field = next(field for field in form.fields if field.name == "project")
        return field.value, [choice.words for choice in field.choices]

    assert project(None) == ("vision", ["vision", "speech"])
    assert project("speech") == ("speech", ["vision", "speech"])
    assert project("robots") == ("", ["choose one", "vision", "speech"])


def test_datasets_are_chosen_from_those_that_the_person_may_use(pool_of: Callable[[str], Pool]) -> None:
    anna = msgspec.structs.replace(pool_of("anna").me, datasets=["coco", "imagenet"])
    (field,) = [field for field in form_of(anna, []).fields if field.name == "datasets"]
    assert [choice.value for choice in field.choices] == ["", "coco", "imagenet"]
    assert field.own == "several"
    assert typed_options({"datasets": "coco, imagenet"}) == ({"datasets": ("coco", "imagenet")}, {})


def test_presets_say_what_they_fill_into_fields_and_which_projects_have_them(
    pool_of: Callable[[str], Pool],
) -> None:
    options = checked_preset({"gpus": 4, "time_limit": "2h", "gpu_types": "a,b", "env": {"A": "1"}})
    small = PresetView(
        name="small", project="vision", about="", options=options, values=values_of(options),
        text=preset_words(options), by="lead", at=0.0, projects=["vision"],
    )  # fmt: skip
    form = form_of(msgspec.structs.replace(pool_of("anna").me, presets=[small]), [])
    assert form.fields[0].name == "preset"
    (preset,) = form.presets
    assert (preset.projects, preset.variables) == (["vision"], ["A"])
    assert preset.words == "small: GPUs 4, GPU type a, b, Time limit 2h, Environment A=1"
    assert preset.values == {"gpus": "4", "time_limit": "2h", "gpu_types": "a, b"}
    read, problems = typed_options(preset.values)
    assert (read, problems) == ({"gpus": 4, "time_limit": 7200.0, "gpu_types": ("a", "b")}, {})
    again = filled(form, {"name": "x", "project": "vision", **msgspec.structs.asdict(JobOptions(preset="small"))})
    assert (again.presets, [field.name for field in again.fields if field.name == "preset"]) == ([], [])


def test_a_field_that_was_cleared_beside_a_preset_stays_at_its_default() -> None:
    options, problems = typed_options({"preset": "small", "time_limit": "", "gpus": " ", "memory": "4Gi"})
    assert not problems
    assert options == {"preset": "small", "time_limit": None, "gpus": 1, "memory": 4 << 30}
    preset = {"time_limit": 7200.0, "gpus": 4, "memory": 1 << 30, "retries": 2}
    wish = filled_by_preset(Wish.of(options), preset)
    assert {name: getattr(wish, name) for name in preset} == {
        "time_limit": None,
        "gpus": 1,
        "memory": 4 << 30,
        "retries": 2,
    }


def test_what_is_typed_is_read_by_the_table_and_what_is_empty_stays_at_its_default() -> None:
    typed = {
        "gpus": "4",
        "time_limit": "1h30m",
        "preemptible": "no",
        "env": "A=1\nB=2",
        "name": " ",
        "priority": "60",
    }
    options, problems = typed_options(typed)
    assert not problems
    assert options == {
        "gpus": 4, "time_limit": 5400.0, "preemptible": False, "env": {"A": "1", "B": "2"}, "priority": 60,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("tags", "fine, two words", "Tags: “two words” does not fit; expected text of 1 to 64 characters without"),
        (
            "keep_best",
            "loss:mx",
            "Best checkpoint kept is “loss:mx”; expected the name of a reported number, with :min",
        ),
        ("gpus", "-1", "GPUs is -1; expected a whole number from 0"),
        ("gpus", "four", "GPUs is “four”; expected a whole number"),
        ("time_limit", "soon", "expected a duration"),
        ("env", "A", "expected NAME=VALUE"),
        ("argv", "rm", "is no option of the form"),
    ],
)
def test_what_cannot_be_read_is_said_beside_its_field(name: str, text: str, words: str) -> None:
    what, review = question({"workers": "2", name: text})
    assert what.job == Wish(workers=2)
    assert list(review.problems) == [name]
    assert words in review.problems[name]


def test_everything_that_is_wrong_is_said_at_once(ask: Ask) -> None:
    both = ask("review", typed={"gpus": "400", "time_limit": "soon"})
    assert both["problems"].keys() == {"gpus", "time_limit"}
    one = ask("review", typed={"time_limit": "soon"})
    assert (one["problems"].keys(), one["estimate"]) == ({"time_limit"}, None)


# ---------- what the pool says


def test_the_estimate_is_the_pools(ask: Ask) -> None:
    review = ask("review", typed={"gpus": "4"})
    assert review["estimate"]["text"].startswith("It would start now on 4 GPUs: 2 within the quota, 2 borrowed.")


@pytest.mark.parametrize(
    ("typed", "field", "words"),
    [
        ({"gpus": "400"}, "gpus", "the largest train node has 4"),
        ({"workers": "9"}, "workers", "room for 4"),
        ({"gpus": "4", "priority": "critical"}, "priority", "has to fit in the quota"),
        ({"min_workers": "2"}, "min_workers", "is larger than workers (1)"),
        ({"project": "speech"}, "project", "You are not in project"),
        ({"require": "rack"}, "require", "No train node belongs to"),
    ],
)
def test_what_the_pool_does_not_allow_is_said_beside_its_field(
    ask: Ask, typed: dict[str, str], field: str, words: str
) -> None:
    review = ask("review", typed=typed)
    assert list(review["problems"]) == [field]
    assert words in review["problems"][field]
    assert review["estimate"] is None


@pytest.mark.parametrize("status", [0, 429, 503])
def test_a_pool_that_cannot_answer_now_finds_nothing_wrong(status: int) -> None:
    review = refused(Review(), Problem(status=status, code="busy", message="Too many ask.", hint="Try again."))
    assert not review.problems
    assert review.later == "Too many ask. Try again."


# ---------- functions


def test_functions_of_the_notebook_and_of_files_beside_it_can_be_chosen(
    ask: Ask, pool: Pool, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [each["name"] for each in ask("functions")] == ["double"]
    (workdir / "beside.py").write_text("def practise(): ...\n")
    monkeypatch.syspath_prepend(workdir)
    practise = importlib.import_module("beside").practise
    answer = backend_of(pool, lambda: {"practise": practise, "wrap": textwrap.wrap}).answer({"do": "functions"})
    assert [each["name"] for each in answer["value"]] == ["practise"]


def test_a_signature_becomes_fields() -> None:
    shown = described("learn", learn)
    assert shown.about == "Learn something."
    assert [(each.name, each.default, each.required) for each in shown.parameters] == [
        ("rate", "", True),
        ("epochs", "3", False),
        ("name", "'x'", False),
    ]
    assert shown.rest


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ({"rate": "0.1"}, ((0.1,), {})),
        ({"rate": "count", "epochs": "9"}, ((21,), {"epochs": 9})),
        ({"rate": "1", "*": "8, 16, name='y'"}, ((1, 8, 16), {"name": "y"})),
    ],
)
def test_what_is_typed_by_name_becomes_the_call(typed: dict[str, str], expected: tuple[object, object]) -> None:
    args, kwargs, problems = call_of(learn, typed, {"count": 21})
    assert not problems
    assert (args, kwargs) == expected
    assert learn(*args, **kwargs)


def test_further_arguments_come_after_those_with_names() -> None:
    def train(rate: float, epochs: int = 3, *layers: int) -> None: ...

    assert call_of(train, {"rate": "0.1", "*": "8"}, {})[:2] == ((0.1, 3, 8), {})


@pytest.mark.parametrize(
    ("typed", "problems"),
    [
        ({}, {"number": "no default"}),
        ({"number": "fast"}, {"number": "Write text in quotes: 'fast'"}),
        ({"number": "1 +"}, {"number": "cannot be read"}),
        ({"number": "open('x')"}, {"number": "neither a plain value nor a variable"}),
        ({"number": "1", "speed": "2"}, {"*": "has no argument “speed”"}),
    ],
)
def test_what_is_wrong_with_an_argument_is_said_beside_it(
    ask: Ask, typed: dict[str, str], problems: dict[str, str]
) -> None:
    found = ask("arguments", work="double", arguments=typed)
    assert found.keys() == problems.keys()
    assert all(words in found[name] for name, words in problems.items())


def test_a_value_that_an_annotation_does_not_allow_is_said_beside_its_parameter() -> None:
    def train(epochs: int, rate: float | None = None, fast: bool = False, **more: int) -> None: ...

    typed = {"epochs": "2.5", "rate": "'high'", "fast": "'no'", "*": "width=0.5"}
    assert call_of(train, typed, {})[2] == {
        "epochs": "epochs is 2.5; expected a whole number.",
        "rate": "rate is “high”; expected a number.",
        "fast": "fast is “no”; expected True or False.",
        "*": "width is 0.5; expected a whole number.",
    }
    assert call_of(train, {"epochs": "3", "rate": "1", "*": "width=2"}, {})[2] == {}


@pytest.mark.parametrize("text", ["open('x')", "1)(2", "rate=__import__('os')", "missing", "1 +"])
def test_arguments_are_values_and_variables_only(text: str) -> None:
    with pytest.raises(OptionError):
        parse_arguments(text, {"count": 1})


# ---------- submitting


def test_a_function_is_submitted_with_its_arguments(ask: Ask, pool: Pool) -> None:
    sent = ask("submit", work="double", arguments={"number": "count"}, typed={"name": "twice", "retries": "2"})
    job = pool.job(sent["id"])
    assert job.wait(quiet=True).result() == 42
    assert (job.name, job.info.options.retries) == ("twice", 2)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"work": "gone"}, "run the cell that defines it"),
        ({"work": "double"}, "number has no default"),
        ({"kind": "command", "work": "python '<b>missing</b>.py'"}, "does not exist"),
        ({"kind": "command", "work": "true", "typed": {"gpus": "many"}}, "GPUs is “many”"),
        ({"kind": "notebook", "work": "../../secret.ipynb"}, "does not exist"),
    ],
)
def test_what_cannot_be_submitted_is_said_and_nothing_is(
    ask: Ask, pool: Pool, asked: dict[str, object], words: str
) -> None:
    before = len(pool.jobs())
    assert words in ask("submit", **asked)
    assert len(pool.jobs()) == before


@pytest.mark.parametrize("asked", [None, [], {"do": "nothing"}, {"do": "submit", "argv": ["rm"]}, {"do": 1}])
def test_a_page_that_asks_nonsense_gets_an_error(pool: Pool, asked: object) -> None:
    assert "Run the cell again" in backend_of(pool, dict).answer(asked)["error"]


def test_a_notebook_is_submitted_with_the_parameters_that_were_typed(ask: Ask, pool: Pool, workdir: Path) -> None:
    cells = [
        new_code_cell("rate = 0.5\nname = 'a'", metadata={"tags": ["parameters"]}),
        new_code_cell("print(rate, name)"),
    ]
    nbformat.write(new_notebook(cells=cells), "study.ipynb")
    shown = ask("preview", work="study.ipynb", arguments={"rate": "fast"})
    assert [(each["name"], each["default"]) for each in shown["parameters"]] == [("rate", "0.5"), ("name", "a")]
    assert "rate was “0.5”, a number" in shown["problems"]["rate"]
    wrong = ask("submit", kind="notebook", work="study.ipynb", arguments={"rate": "fast"})
    assert "rate was “0.5”, a number" in wrong
    sent = ask("submit", kind="notebook", work="study.ipynb", arguments={"rate": "0.1", "name": ""})
    job = pool.job(sent["id"]).wait(quiet=True)
    assert pool.connection.client.log(job.id).text == "0.1 a\n"
    assert {name: each.value for name, each in job.info.arguments.items()} == {"rate": 0.1, "name": "a"}


@pytest.mark.parametrize(
    ("text", "number", "words"),
    [
        ("x = 1\n!pip install y", 7, "Cell In [7] cannot be sent: line 2, “!pip install y”, is a shell or"),
        ("%%time\nx = 1", None, "The cell cannot be sent: line 1, “%%time”, is a shell or magic line"),
        ("\n%%train --gpus 2\nx = 1", 3, "Cell In [3] has a line with %%train already. Run the cell"),
        ("x = (1", None, ""),
        ("x = '''\n!pip install y\n'''\nawait x", None, ""),
        ("", None, ""),
    ],
)
def test_lines_of_a_cell_that_no_job_runs_are_said_before_it_is_sent(
    text: str, number: int | None, words: str
) -> None:
    refusal = cell_preview(text, number).refusal
    assert refusal.startswith(words)
    assert bool(refusal) == bool(words)


# ---------- what a notebook shows


def test_the_output_has_a_type_of_its_own_and_a_widget_for_other_places(pool: Pool, workdir: Path) -> None:
    shown = pool.form()._repr_mimebundle_()
    ipywidgets.Widget.close_all()
    assert shown[FORM_TYPE] == {}
    assert "application/vnd.jupyter.widget-view+json" in shown
    assert "pool.submit" in shown["text/plain"]


def test_the_widget_answers_its_page_and_shows_the_card(
    pool: Pool, workdir: Path, until: Callable[..., None]
) -> None:
    asking, cards = pool.form().widget().children
    answers: list[Any] = []
    asking.send = answers.append
    asking._handle_custom_msg({"number": 7, "ask": {"do": "submit", "kind": "command", "work": "true"}}, [])
    until(lambda: answers)
    assert answers[0]["number"] == 7
    assert cards.children[0].job["id"] == answers[0]["answer"]["value"]["id"]
    ipywidgets.Widget.close_all()


def test_a_page_reads_the_answer_as_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPRINGTIDE_URL", raising=False)
    data = FormAnswer('{"do": "form"}')._repr_mimebundle_()
    assert "There is no pool here" in data["application/json"]["error"]

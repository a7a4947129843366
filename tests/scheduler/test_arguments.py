"""Arguments as data: read from a command's words, kept short, changed for a run again, secrets hidden."""

from __future__ import annotations

import math
import re
import shlex
from typing import Any

import pytest

from springtide.scheduler.arguments import (
    MAX_ARGUMENTS,
    MAX_TEXT,
    MAX_TOTAL,
    Argument,
    BadArgument,
    arguments_of,
    bounded,
    changed,
    file_run,
    is_editable,
    of_values,
    shown_words,
    typed_of,
    without_secrets,
    without_secrets_in_text,
    without_secrets_in_words,
)
from springtide.training.values import as_code, literal

RUNNER = ["python", "-m", "runner", "function", "{code}/payload.pkl"]


def values(command: str) -> dict[str, object]:
    found = arguments_of("command", shlex.split(command), {})
    return {name: "hidden" if argument.hidden else argument.value for name, argument in found.items()}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python train.py --lr 0.1 --epochs=30", {"lr": 0.1, "epochs": 30}),
        ("python -u train.py --weight-decay 1e-3", {"weight_decay": 0.001}),
        ("python -m package.train --lr .5 --name run-1", {"lr": 0.5, "name": "run-1"}),
        ("python train.py --amp --no-cache --seed -1", {"amp": True, "no_cache": True, "seed": -1}),
        ("python train.py data.csv out --lr 1", {"argument 1": "data.csv", "argument 2": "out", "lr": 1}),
        (
            "python train.py model.depth=3 +data=cifar ++opt.lr=0.1",
            {"model.depth": 3, "data": "cifar", "opt.lr": 0.1},
        ),
        ("python train.py --multirun lr=0.1,0.2", {"multirun": True, "lr": "0.1,0.2"}),
        ("python train.py --layers 64 64 32", {"layers": "64 64 32"}),
        ("python train.py --tag a --tag b", {"tag": "a b"}),
        ("python train.py --pretrained true --debug=False", {"pretrained": True, "debug": False}),
        ("torchrun --nproc_per_node 4 train.py --lr 0.1", {"lr": 0.1}),
        ("python -m torch.distributed.run --nnodes 2 train.py -b 32", {"b": 32}),
        ("accelerate launch --config_file c.yaml train.py --lr 2", {"lr": 2}),
        ("bash run.sh 3", {"argument 1": 3}),
        ("./train --script x.py", {"script": "x.py"}),
        ("python -c 'print(1)' --lr 3", {"lr": 3}),
        ("bash -c 'python t.py' --lr 3", {}),
        ("bash -lc 'python train.py --lr 3'", {}),
        ("python train.py --data {project_tree}/data --out -", {"data": "data", "out": "-"}),
        ("python {project_tree}/.outside/o/fit.py --cfg {project_tree}/.outside/o/a.yaml", {"cfg": "/o/a.yaml"}),
        ("python train.py -- --lr 1", {"lr": 1}),
        ("python train.py --x nan --y 1_000 --z 1e999", {"x": "nan", "y": "1_000", "z": "1e999"}),
        ("python", {}),
    ],
)
def test_a_commands_arguments_are_read_as_programs_read_them(command: str, expected: dict[str, object]) -> None:
    assert values(command) == expected


def test_secrets_are_hidden_in_arguments_and_in_the_command() -> None:
    command = "python train.py --api-key abc --password 123 --hfToken=x --max-tokens 512 --token 7 --monkey a"
    hidden = "hidden"
    assert values(command) == {
        "api_key": hidden,
        "password": hidden,
        "hfToken": hidden,
        "max_tokens": 512,
        "token": 7,
        "monkey": "a",
    }
    words = without_secrets(shlex.split(command))
    assert words == shlex.split(
        "python train.py --api-key … --password … --hfToken=… --max-tokens 512 --token 7 --monkey a"
    )
    assert "abc" not in without_secrets_in_text(command)
    assert without_secrets_in_text("it's no command") == "it's no command"
    assert of_values({"secret": "x"})["secret"] == Argument(value=None, hidden=True)


@pytest.mark.parametrize(
    "command",
    [
        "python t.py --secret -S3cr3t --lr 1",
        "python t.py --password S3cr3t S3cr3t2 --lr 1",
        "python t.py -Dpassword=S3cr3t",
        "python t.py --pass-word S3cr3t",
        "python t.py --pass S3cr3t",
        "python t.py --bearer S3cr3t",
        "python t.py --openaikey S3cr3t",
        "python t.py --privatekey S3cr3t",
        "python t.py --tokens S3cr3t",
        "python t.py --secret@x=S3cr3t ~secret=S3cr3t a[password]=S3cr3t",
        "python t.py --kw=password=S3cr3t",
        "python t.py 'cfg={password:S3cr3t}'",
        """python t.py '{"api_key":"S3cr3t"}'""",
        "python t.py --conn=postgres://u:S3cr3t@db/x",
        "python t.py --header 'Authorization: Bearer S3cr3t'",
        "env WANDB_API_KEY=S3cr3t python t.py",
    ],
)
def test_secrets_are_hidden_however_they_are_written(command: str) -> None:
    words = shlex.split(command)
    assert "S3cr3t" not in repr(arguments_of("command", words, {}))
    assert "S3cr3t" not in " ".join(without_secrets(words))
    assert "S3cr3t" not in without_secrets_in_text(command)


def test_secrets_in_added_words_are_hidden() -> None:
    words = shlex.split(without_secrets_in_words("--api-key S3cr3t --ckpt {checkpoint}"))
    assert words == ["--api-key", "…", "--ckpt", "{checkpoint}"]
    assert without_secrets_in_words("--ckpt {checkpoint}") == "--ckpt {checkpoint}"


def test_what_is_no_secret_stays() -> None:
    command = "python t.py --max-tokens 512 --tokenizer bert --use-auth --key-dim 64 --sort loss data/passages.txt"
    assert without_secrets(shlex.split(command)) == shlex.split(command)


def test_hostile_arguments_are_kept_short_and_plain() -> None:
    many = bounded({f"a{n}": Argument(value=n) for n in range(1000)})
    assert len(many) == MAX_ARGUMENTS
    large = bounded({f"a{n}": Argument(value="x" * 10_000) for n in range(60)})
    assert sum(len(name) + len(str(each.value)) for name, each in large.items()) <= MAX_TOTAL
    odd = bounded(
        {
            "": Argument(value=1),
            "n" * 200: Argument(value=1),
            "a\u202eb": Argument(value=1),
            "line": Argument(value="a\nb\u202e\x1b[31m"),
            "long": Argument(value="y" * 5000),
            "huge": Argument(value=10**300),
            "infinite": Argument(value=float("inf")),
            "typed": Argument(value="x", type="t\u202e"),
        }
    )
    assert {name: each.value for name, each in odd.items()} == {
        "line": "a b  [31m",
        "long": f"{'y' * (MAX_TEXT - 1)}…",
        "huge": "a large number",
        "infinite": "inf",
        "typed": "x",
    }
    assert (odd["long"].type, odd["typed"].type) == ("text", "")


def rerun(command: str, **typed: str | None) -> str:
    words, arguments = changed(
        "command", shlex.split(command), arguments_of("command", shlex.split(command), {}), typed
    )
    assert arguments == arguments_of("command", words, {})
    return shlex.join(words)


def test_arguments_of_a_command_change_where_they_stand() -> None:
    command = "python train.py --lr 0.1 --epochs=30 --amp --layers 64 64 model.depth=3"
    assert rerun(command, lr="0.01") == command.replace("0.1", "0.01")
    assert (
        rerun(command.replace("--epochs=30", "--note=a"), note="b c")
        == "python train.py --lr 0.1 '--note=b c' --amp --layers 64 64 model.depth=3"
    )
    assert rerun(command, amp="false") == command.replace(" --amp", "")
    assert rerun(command, amp="true") == command
    assert rerun("python t.py --no-amp", no_amp="true") == "python t.py --no-amp"
    assert rerun("python t.py --no-amp", no_amp="false") == "python t.py"
    assert rerun(command, layers="8 8 8") == command.replace("64 64", "8 8 8")
    assert rerun(command, **{"model.depth": "9"}) == command.replace("depth=3", "depth=9")
    assert rerun("python train.py a.csv", **{"argument 1": "b.csv"}) == "python train.py b.csv"


@pytest.mark.parametrize(
    ("before", "name", "text", "after"),
    [
        ("python t.py", "--lr", "0.5", "python t.py --lr 0.5"),
        ("python t.py --lr 1", "--amp", "true", "python t.py --lr 1 --amp"),
        ("python t.py --lr 1", "--lr", "2", "python t.py --lr 2"),
        ("python t.py --weight-decay=1", "--weight-decay", "2", "python t.py --weight-decay=2"),
        ("python t.py -p 3", "-p", "4", "python t.py -p 4"),
        ("python t.py --shift -0.5 x", "shift", "1", "python t.py --shift 1 x"),
        ("python t.py data=x", "+lr", "0.5", "python t.py data=x +lr=0.5"),
        ("python t.py ++lr=1", "++lr", "0.5", "python t.py ++lr=0.5"),
    ],
)
def test_an_option_named_as_its_command_takes_it_is_changed_or_added(before, name, text, after) -> None:
    assert rerun(before, **{name: text}) == after


@pytest.mark.parametrize(
    ("before", "typed", "after"),
    [
        ("python t.py --name x", {"name": "'a b'"}, "python t.py --name 'a b'"),
        ("python t.py --name=x", {"name": '"a b"'}, "python t.py '--name=a b'"),
        ("python t.py x", {"argument 1": "'a'"}, "python t.py a"),
        ("python t.py", {"--name": "'a b'"}, "python t.py --name 'a b'"),
        ("python t.py --name x", {"name": "it's"}, "python t.py --name 'it'\"'\"'s'"),
        ("python t.py --name x", {"name": "'a' 'b'"}, "python t.py --name ''\"'\"'a'\"'\"' '\"'\"'b'\"'\"''"),
    ],
)
def test_a_typed_text_in_quotes_is_what_is_between_them(before: str, typed: dict[str, str], after: str) -> None:
    assert rerun(before, **typed) == after
    values = {name.lstrip("-"): shlex.split(after)[-1].removeprefix("--name=") for name in typed}
    exact = typed_of("command", arguments_of("command", shlex.split(before), {}), values)
    if not before.endswith("t.py"):
        assert rerun(before, **exact) == after


@pytest.mark.parametrize("text", ["1e-4", "-3", "inf", "1_000", "none", "null", "${base.lr}", "{checkpoint}"])
def test_what_a_program_may_read_as_a_number_takes_the_place_of_one(text: str) -> None:
    assert rerun("python t.py lr=0.1", lr=text) == shlex.join(["python", "t.py", f"lr={text}"])


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        (0.1, 1, 1),
        (0.1, "0.3", 0.3),
        (0.1, "abc", "lr was “0.1”, a number; “abc” is a text. Write a number, or submit the program anew"),
        (0.1, True, "“True” is true or false."),
        (3, [1], "“[1]” is a list."),
        (3, None, None),
        (True, 1, "lr was “true”, true or false; “1” is a number."),
        (True, "false", False),
        (None, "abc", "abc"),
        ("adam", "sgd", "sgd"),
    ],
)
def test_a_value_of_python_has_the_type_of_the_one_before_unless_it_is_read_as_one(before, value, after) -> None:
    arguments = {"lr": Argument(value=before)}
    typed = typed_of("function", arguments, {"lr": value})
    if isinstance(after, str) and " " in after:
        with pytest.raises(BadArgument, match=re.escape(after)):
            changed("function", RUNNER, arguments, typed)
        return
    assert changed("function", RUNNER, arguments, typed)[1] == {"lr": Argument(value=after)}


def test_a_list_takes_the_place_of_a_list_or_a_tuple() -> None:
    arguments = {"layers": Argument(value="[64, 64]", type="list")}
    for value, kind in (([8], "list"), ((8, 9), "tuple")):
        _, after = changed("function", RUNNER, arguments, typed_of("function", arguments, {"layers": value}))
        assert after["layers"].type == kind
    with pytest.raises(BadArgument, match=re.escape("layers was “[64, 64]”, a list; “8” is a number.")):
        changed("function", RUNNER, arguments, {"layers": "8"})


def test_texts_of_python_keep_their_quotes() -> None:
    before = {"name": Argument(value="a")}
    for text in ("'a b'", '"x"', "plain", "'", "it's", "'a' 'b'"):
        for kind, argv in (("function", RUNNER), ("command", ["python", "t.py", "--name", "a"])):
            words, _ = changed(kind, argv, before, typed_of(kind, before, {"name": text}))
            assert words[-1] == (text if kind == "command" else f"name={text!r}")


@pytest.mark.parametrize(
    ("before", "name", "after"),
    [
        ("python t.py --lr 1 --decay 0.5 x", "decay", "python t.py --lr 1 x"),
        ("python t.py --layers 1 2 --lr=1", "layers", "python t.py --lr=1"),
        ("python t.py --layers 1 2 --lr=1", "--lr", "python t.py --layers 1 2"),
        ("python t.py --amp", "amp", "python t.py"),
        ("python t.py model.depth=3", "model.depth", "python t.py"),
    ],
)
def test_an_option_of_a_command_is_removed(before: str, name: str, after: str) -> None:
    assert rerun(before, **{name: None}) == after
    assert typed_of("command", {}, {name: None}) == {name: None}


@pytest.mark.parametrize(
    ("command", "typed", "message"),
    [
        (
            "python t.py x y",
            {"argument 1": None},
            "is a word by itself: without it, other words would take its place.",
        ),
        ("python t.py --lr 1", {"rate": None}, "“rate” is no argument of this job."),
        ("python t.py --lr 1", {"rate": "2"}, "“rate” is no argument of this job. Known are: lr."),
        ("python t.py --lr 1", {"rate": "2"}, "named as the program takes it, such as --rate."),
        ("bash -c 'python t.py'", {"--lr": "2"}, "“bash” runs a text here, which has no options."),
        ("python t.py --a 1 --a 2", {"--a": "3"}, "The argument “a” of this job cannot be changed here."),
        ("python t.py", {"--lr": "--amp"}, "would be read as an option"),
        ("python t.py --lr 1", {"lr": "--x"}, "“--x” would be read as an option"),
        ("python t.py --amp", {"amp": "maybe"}, "amp is a flag; “maybe” is neither true nor false."),
        ("python t.py --a 1 --a 2", {"a": "3"}, "The argument “a” of this job cannot be changed here."),
        ("python t.py --lr 1", {"lr": "x" * 20_000}, "“lr” has 20,000 characters"),
        (
            "python t.py --lr 0.1",
            {"lr": "abc"},
            "lr was “0.1”, a number; “abc” is a text. Write a number, or submit",
        ),
        ("python t.py --lr=0.1", {"lr": "true"}, "lr was “0.1”, a number; “true” is true or false."),
        ("python t.py lr=0.1", {"lr": "'abc'"}, "“abc” is a text."),
        ("python t.py --layers 64 64", {"layers": "8 x"}, "layers was “64 64”, a number; “x” is a text."),
        ("python t.py --amp=true", {"amp": "1"}, "amp was “true”, true or false; “1” is a number."),
        ("python t.py 10", {"argument 1": "many"}, "argument 1 was “10”, a number; “many” is a text."),
    ],
)
def test_what_cannot_be_changed_is_refused_with_a_hint(command: str, typed: dict[str, str], message: str) -> None:
    with pytest.raises(BadArgument) as refused:
        rerun(command, **typed)
    assert message in str(refused.value)


def test_arguments_of_a_function_are_sent_along_as_literals() -> None:
    before = {
        "lr": Argument(value=0.1),
        "name": Argument(value="a"),
        "sizes": Argument(value="[1, 2]", type="list"),
        "frame": Argument(value="<DataFrame>", type="DataFrame"),
        "token": Argument(value=None, hidden=True),
    }
    argv = [*RUNNER, "lr=0.3"]
    words, after = changed("function", argv, before, {"lr": "1e-2", "name": "0.5", "sizes": "[3]", "token": "s"})
    assert words == [*argv[:5], "lr=0.01", "name='0.5'", "sizes=[3]", "token='s'"]
    assert after == {
        "lr": Argument(value=0.01),
        "name": Argument(value="0.5"),
        "sizes": Argument(value="[3]", type="list"),
        "frame": before["frame"],
        "token": Argument(value=None, hidden=True),
    }
    refused = [("frame", "1"), ("lr", "fast"), ("lr", "__import__('os')"), ("sizes", "[1, ...]")]
    for name, text in refused:
        with pytest.raises(BadArgument):
            changed("function", argv, before, {name: text})


def test_a_list_that_is_not_known_to_its_end_is_not_changed() -> None:
    lists = ("[1, 2, ...]", "<list>", f"[{'1, ' * 70}…")
    for value in lists:
        assert not is_editable("function", RUNNER, "sizes", Argument(value=value, type="list")), value
    for argument in (
        Argument(value="and so on..."),
        Argument(value="[1, [nan, 'a']]", type="list"),
        Argument(value="inf", type="float"),
    ):
        assert is_editable("function", RUNNER, "word", argument), argument


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def train(lr):\n    return lr\n", "function train"),
        ("    @cache\n    async def tune(lr):\n        ...\n", "function tune"),
        ("class Net:\n    ...\n", "function Net"),
        ("@cache\ndef train(lr):\n    ...\n" + "# and so on\n" * 10_000, "function train"),
        ("\nmodel = Net()\nmodel.fit()\n", "cell"),
        ("def helper(): ...\nhelper()", "cell"),
        ("train(0.1)", "cell"),
        ("sweep = pool.map(lambda item: item, [1])", "lambda"),
        ("    'train': lambda item: item,", "lambda"),
        ("", "function"),
    ],
)
def test_a_function_and_a_cell_are_shown_without_their_runner(source: str, words: str) -> None:
    runner = ["python3", "-m", "springtide.training.run", "function", "{code}/payload.pkl"]
    assert " ".join(shown_words("function", runner, source)) == words
    assert shown_words("command", ["python3", "train.py"], source) == ["python3", "train.py"]


def test_parameters_of_a_notebook_are_sent_along_as_those_of_a_function() -> None:
    before = {"lr": Argument(value=0.1), "name": Argument(value="a")}
    words, after = changed("notebook", RUNNER, before, {"lr": "0.5"})
    assert words == [*RUNNER, "lr=0.5"]
    assert file_run(words) == "payload.pkl"
    assert after == {**before, "lr": Argument(value=0.5)}


@pytest.mark.parametrize("kind", ["command", "function"])
def test_values_of_python_are_typed_as_the_job_takes_them(kind: str) -> None:
    before = {
        "name": Argument(value="a"),
        "rate": Argument(value=0.1),
        "sizes": Argument(value="3 4" if kind == "command" else "[3, 4]", type="list"),
    }
    values = {"name": "1", "rate": "auto", "sizes": [1, 2], "amp": True}
    assert typed_of(kind, before, values) == {
        "name": "1",
        "rate": "auto" if kind == "command" else "'auto'",
        "sizes": "1 2" if kind == "command" else "[1, 2]",
        "amp": "True",
    }
    for odd in (object(), [object()]):
        with pytest.raises(BadArgument, match="The argument “rate” is"):
            typed_of("function", before, {"rate": odd})


@pytest.mark.parametrize(
    ("command", "value", "after"),
    [
        ("python t.py --lrs=0.1,0.2", [0.3, 0.4], "--lrs=0.3,0.4"),
        ("python t.py --lrs '0.1, 0.2'", (0.3, 0.4), "0.3, 0.4"),
        ("python t.py --lrs 0.1 0.2", [0.3, 0.4, 0.5], "0.5"),
        ("python t.py lrs=[1,2]", [3, 4], "lrs=[3,4]"),
        ("python t.py lrs=[a,b]", ["c"], "lrs=[c]"),
        ("python t.py lrs=[1,2]", [], "lrs=[]"),
        ("python t.py \"--lrs=['a', 'b']\"", ["c d", "e"], "--lrs=['c d', 'e']"),
        ("python t.py --lrs '(1,2)'", (3, 4), "(3,4)"),
        (f"python t.py lrs=[{','.join(map(str, range(200)))}]", [3, 4], "lrs=[3,4]"),
    ],
)
def test_a_list_has_the_form_of_the_one_in_the_command(command: str, value: list[Any], after: str) -> None:
    argv = shlex.split(command)
    for name in ("lrs", "--lrs"):
        typed = typed_of("command", bounded(arguments_of("command", argv, {})), {name: value})
        assert changed("command", argv, {}, typed)[0][-1] == after


@pytest.mark.parametrize(
    ("kind", "before", "value", "message"),
    [
        ("command", "abc", ["a b", "c"], "name was “abc”, a text; “['a b', 'c']” is a list."),
        ("command", "a,b", ["c,d"], "name was “a,b”; “c,d” would not stay one value in such a list."),
        ("command", "a,b", [], "“[]” is a list."),
        ("command", 0.1, [0.2, 0.3], "name was “0.1”, a number; “[0.2, 0.3]” is a list."),
        ("command", None, [1, 2], "“[1, 2]” is a list, and the command has no “name” that shows its form."),
        ("function", "abc", ["a", "b"], "name was “abc”, a text; “['a', 'b']” is a list."),
        ("notebook", "abc", {"a": 1}, "name was “abc”, a text; “{'a': 1}” is a dict."),
    ],
)
def test_a_list_is_refused_where_the_job_has_none(kind: str, before: Any, value: Any, message: str) -> None:
    arguments = {} if before is None else {"name": Argument(value=before)}
    with pytest.raises(BadArgument, match=re.escape(message)):
        typed_of(kind, arguments, {"name": value})


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_given_to_a_run_again_and_changed_in_the_next(number: float) -> None:
    before = {"lr": Argument(value=0.1)}
    typed = typed_of("function", before, {"lr": number})
    words, after = changed("function", RUNNER, before, typed)
    assert words[-1] == f"lr={number!r}"
    assert repr(literal(words[-1].partition("=")[2])) == repr(number)
    assert repr(eval(as_code(words[-1].partition("=")[2]))) == repr(number)
    assert repr(after["lr"].restored) == repr(number)
    again, _ = changed("function", words, after, {"lr": "0.5"})
    assert again[-1] == "lr=0.5"


def test_texts_that_no_run_again_takes_are_named_with_their_fault() -> None:
    before = {"s": Argument(value="a")}
    with pytest.raises(BadArgument, match="“s” has 1,000,000 characters; at most 10,000 can be given"):
        typed_of("function", before, {"s": "x" * 1_000_000})
    with pytest.raises(BadArgument, match="The value of “s” has a NUL character"):
        typed_of("function", before, {"s": "a\0b"})

"""Other arguments in a command, and the arguments that a function has."""

from __future__ import annotations

import pytest

from springtide.scheduler.forking import (
    BadArgumentError,
    value_of,
    with_arguments,
)


@pytest.mark.parametrize(
    ("command", "arguments", "expected"),
    [
        ("train.py --lr 0.1 --epochs 3", {"lr": 0.01}, "train.py --lr 0.01 --epochs 3"),
        ("train.py --lr=0.1", {"lr": 0.01}, "train.py --lr=0.01"),
        ("train.py --batch-size 8", {"batch_size": 16}, "train.py --batch-size 16"),
        ("train.py --shift -0.5 x", {"shift": 1}, "train.py --shift 1 x"),
        ("train.py optimizer.lr=0.1", {"optimizer.lr": 0.5}, "train.py optimizer.lr=0.5"),
        ("train.py data=x", {"lr": 0.5}, "train.py data=x lr=0.5"),
        ("train.py", {"lr": 0.5, "name": "a b"}, "train.py --lr 0.5 --name a b"),
        ("train.py --lr 1 --lr 2", {"lr": 3}, "train.py --lr 1 --lr 3"),
        ("train.py --amp --lr 1", {"amp": False}, "train.py --lr 1"),
        ("train.py --lr 1", {"amp": True}, "train.py --lr 1 --amp"),
        ("train.py --lr 1 --amp", {"lr": None}, "train.py --amp"),
        ("train.py --amp --fast", {"amp": 2}, "train.py --amp 2 --fast"),
        ("train.py -p 3", {"p": 4}, "train.py -p 4"),
    ],
)
def test_options_of_a_command_get_other_values(command, arguments, expected) -> None:
    words = with_arguments(["python", *command.split()], arguments)
    assert " ".join(words) == f"python {expected}"


def test_a_text_of_a_shell_and_a_list_are_refused() -> None:
    with pytest.raises(BadArgumentError, match="runs a text"):
        with_arguments(["bash", "-c", "python train.py"], {"lr": 1})
    with pytest.raises(BadArgumentError, match="takes no list"):
        with_arguments(["python", "train.py"], {"lr": [1]})


def test_texts_are_values() -> None:
    texts = ("0.01", "3", "true", "None", "null", "adam", "NaN", '"3"', "[1]")
    assert [value_of(text) for text in texts] == [0.01, 3, True, None, None, "adam", "NaN", "3", [1]]

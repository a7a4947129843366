"""``springtide env``: environments of one's own, with kernels."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import click

from springtide.hub_extension.commands.text import json_option, one_line, print_json, print_table, say
from springtide.scheduler.user_environments import (
    OWN,
    UserEnvironment,
    UserEnvironmentError,
    UserEnvironments,
    user_environments,
)

T = TypeVar("T")


@click.group()
def env() -> None:
    """Make environments of your own: each a Python with packages, in your home, with a kernel for your notebooks.

    Jobs that are submitted from a notebook with the kernel run in the environment.
    """


def _mine() -> UserEnvironments:
    return user_environments(os.environ, lambda line: say(one_line(line)))


def _done(call: Callable[[], T]) -> T:
    try:
        return call()
    except UserEnvironmentError as error:
        raise click.ClickException(str(error)) from error


@env.command()
@click.argument("name")
@click.argument("packages", metavar="[PACKAGE]...", nargs=-1)
@click.option("--python", default=OWN, show_default=True, help="The version of its Python.")
@json_option
def create(*, name: str, packages: tuple[str, ...], python: str, as_json: bool) -> None:
    """Make an environment with these packages, and its kernel: springtide env create bert transformers 'numpy<2'.

    With the Python of the hub it has all that notebooks have, and yours come first. With another Python it starts
    empty.
    """
    made = _done(lambda: _mine().create(name, packages, python))
    if as_json:
        print_json(_facts(made))
        return
    click.echo(
        f"{name} is ready: choose the kernel “{name} (Python {made.python})” in a notebook's launcher or menu."
    )
    click.echo(f"In a terminal: source {made.path}/bin/activate")


@env.command("list")
@json_option
def list_all(*, as_json: bool) -> None:
    """List your environments."""
    found = _mine().all()
    if as_json:
        print_json([_facts(each) for each in found])
    else:
        rows = [
            (each.name, each.python, " ".join(each.packages), each.problem or str(each.path)) for each in found
        ]
        empty = "You have no environment. Make one with `springtide env create NAME`."
        print_table(("NAME", "PYTHON", "PACKAGES", "PLACE"), rows, empty=empty)


@env.command()
@click.argument("name")
@click.argument("packages", metavar="PACKAGE...", nargs=-1, required=True)
def install(*, name: str, packages: tuple[str, ...]) -> None:
    """Install packages into an environment: springtide env install bert datasets.

    In a notebook with its kernel %pip install does the same. Restart kernels that have imported an older version.
    """
    _done(lambda: _mine().install(name, packages))
    click.echo(f"{name} has {', '.join(packages)}.")


@env.command()
@click.argument("name")
def remove(*, name: str) -> None:
    """Remove an environment and its kernel. Jobs that wait with its Python cannot start any more."""
    _done(lambda: _mine().remove(name))
    click.echo(f"{name} is removed.")


def _facts(found: UserEnvironment) -> dict[str, object]:
    return {
        "name": found.name,
        "python": found.python,
        "packages": list(found.packages),
        "kernel": found.kernel,
        "path": str(found.path),
        "problem": found.problem,
    }

"""``springtide up``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeAlias

import click
import msgspec

from springtide.hub_extension.commands.text import json_option
from springtide.scheduler import wording
from springtide.scheduler.process_tuning import loading

if TYPE_CHECKING:
    from springtide.hub_extension.local_hub.up import Running


GpuNumbers: TypeAlias = int | dict[str, int]


def gpu_numbers(least: int) -> Callable[[click.Context, click.Parameter, str | None], GpuNumbers | None]:
    """Return the reader of a number of GPUs from ``least``, or of one for each type: ``8`` or ``t4=8,a100=4``."""

    def read(_context: click.Context, _option: click.Parameter, text: str | None) -> GpuNumbers | None:
        if text is None:
            return None
        parts = [part.partition("=") for part in text.split(",")]
        by_type = {name.strip(): number.strip() for name, sign, number in parts if sign and name.strip()}
        numbers = list(by_type.values()) if "=" in text else [text.strip()]
        if len(numbers) < len(parts) or not all(each.isdecimal() and int(each) >= least for each in numbers):
            raise click.BadParameter(
                f"{wording.given(text)} is not a number of GPUs. Expected a whole number from {least}, or one "
                "for each type, such as t4=8,a100=4."
            )
        return {name: int(number) for name, number in by_type.items()} if by_type else int(numbers[0])

    return read


@click.command()
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("springtide-state"),
    show_default=True,
    help="Directory of all state; a later start with the same directory continues from it.",
)
@click.option(
    "--port", type=click.IntRange(1, 65535), default=8000, show_default=True, help="Where the hub listens."
)
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="A name of this machine, beside localhost, that browsers may use. May be given several times.",
)
@click.option(
    "--simulated-gpus",
    metavar="NUMBER",
    callback=gpu_numbers(1),
    help="Number of GPUs to simulate instead of using real ones; t4=8,a100=4 simulates two types.",
)
@click.option(
    "--build-gpus",
    metavar="NUMBER",
    callback=gpu_numbers(0),
    help="How many of all GPUs are for build notebooks, or how many of each type (t4=2).",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="More configuration, written like a jupyterhub_config.py.",
)
@click.option("-v", "--verbose", is_flag=True, help="Leave the hub's log on the terminal.")
@json_option
def up(
    *,
    state_dir: Path,
    port: int,
    allowed_hosts: tuple[str, ...],
    simulated_gpus: GpuNumbers | None,
    build_gpus: GpuNumbers | None,
    config: Path | None,
    verbose: bool,
    as_json: bool,
) -> None:
    """Run a hub with build notebooks and a pool of train GPUs on this machine, for whoever can reach 127.0.0.1.

    Ctrl-C stops the hub. Notebooks and jobs continue, and the next `springtide up` on the same state directory
    finds them.
    """
    with loading():
        from springtide.hub_extension.local_hub.state_dir import StateError  # noqa: PLC0415 - needs the hub installed
        from springtide.hub_extension.local_hub.up import Options  # noqa: PLC0415
        from springtide.hub_extension.local_hub.up import up as run  # noqa: PLC0415

    given = {"simulated_gpus": simulated_gpus, "build_gpus": build_gpus}
    settings = {name: value for name, value in given.items() if value is not None}
    options = Options(state_dir, port, config, verbose, allowed_hosts, settings)

    def ready(terminal: TextIO, hub: Running) -> None:
        terminal.write((msgspec.json.encode(hub).decode() if as_json else welcome(hub)) + "\n")
        terminal.flush()

    if not as_json:
        click.echo("Starting the hub, its proxy and the pool's service …")
    try:
        code = run(options, ready)
    except StateError as error:
        raise click.ClickException(str(error)) from error
    if code:
        raise click.exceptions.Exit(code)
    if not as_json:
        click.echo("The hub has stopped. Notebooks and jobs continue; `springtide up` finds them.")


def welcome(hub: Running) -> str:
    """Return the users, the admins and the first steps."""
    pool = hub.pool
    kind = "simulated GPUs" if pool.simulated else "GPUs"
    gpus = pool.build_gpus + pool.train_gpus
    password = []
    if hub.password is not None:
        words = f"{hub.password}, the same for all" if hub.password else "none is set: any is taken"
        password.append(f"  Password      {words}")
    if hub.password_file is not None:
        password.append(f"                kept in {hub.password_file}, which only you may read")
    earlier = []
    if hub.earlier:
        names = wording.listed(hub.earlier)
        earlier = [f"                and {names}, whom this hub has from before: delete them on its page Admin"]
    admins = [f"  Admin         {', '.join(hub.admins)}: edits projects and quotas"] if hub.admins else []
    known = (*hub.members, *(name for name in hub.users if name not in hub.members))
    first, second = known[:2] if len(known) > 1 else ("one person", "another")
    pages = f"{hub.url}/services/springtide"
    lines = [
        "",
        f"Springtide is ready: {hub.url}",
        "",
        f"  People        {_people(hub)}",
        *earlier,
        *admins,
        *password,
        f"  Accounts      {hub.accounts}",
        f"  GPUs          {gpus} {kind}: {pool.build_gpus} for build notebooks, {pool.train_gpus} for train jobs",
        "",
        *(_story(first, second) if hub.is_story else _own_people(hub, first, pages)),
        f"  3. Watch the pool:  {pages}/pool",
        *([f"     Change quotas:   {pages}/admin (as {hub.admins[0]})"] if hub.is_story and hub.admins else []),
        "",
        f"  Kept in       {hub.state_dir}",
        f"  The log is    {hub.log}",
        "",
        "Ctrl-C stops the hub; notebooks and jobs continue, and the next `springtide up` finds them.",
    ]
    return "\n".join(lines)


def _people(hub: Running) -> str:
    """Return who can log in, and who of them is in no project as long as others are in some."""
    if not hub.users:
        return "whom your configuration allows"
    others = [name for name in hub.users if name not in hub.members]
    if not others or not hub.members:
        return ", ".join(hub.users)
    return f"{', '.join(hub.members)}; in no project: {', '.join(others)}"


def _story(first: str, second: str) -> list[str]:
    """Return the first steps with the people of the demonstration."""
    return [
        f"  1. Log in as {first} and press Start; do the same as {second} in a private window.",
        f"  2. Run the notebook of {first} (Run > Run All Cells): its two trainings borrow",
        f"     what is idle. Then run that of {second}: the GPUs of that quota come back.",
    ]


def _own_people(hub: Running, first: str, pages: str) -> list[str]:
    """Return the first steps with other people."""
    admin = hub.admins[0] if hub.admins else "an admin"
    if hub.members:
        return [
            f"  1. Log in as {first}, press Start, and run the notebook: it sends jobs to the pool.",
            f"  2. Change people and quotas as {admin}:  {pages}/admin",
        ]
    return [
        f"  1. Log in as {admin} and give people projects with quotas:  {pages}/admin",
        f"  2. Log in as {first}, press Start, and run the notebook: it sends jobs to the pool.",
    ]

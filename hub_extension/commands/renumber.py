"""``springtide renumber``."""

from __future__ import annotations

from pathlib import Path

import click

from springtide.hub_extension.commands.text import json_option, print_json
from springtide.hub_extension.local_hub.state_dir import StateDir, StateError
from springtide.hub_extension.service.service import Springtide
from springtide.scheduler.executors.accounts import AccountError
from springtide.scheduler.settings import SettingError


@click.command()
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    required=True,
    help="State directory of the pool whose users get other uids.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The configuration file of the hub or the service.",
)
@json_option
def renumber(*, state_dir: Path, config: Path | None, as_json: bool) -> None:
    """Give other uids to users whose uid another pool of this machine has, too.

    Their home directories and the files of their jobs are given to the new uids. The hub must not run, and no
    process with these uids. `springtide doctor` names such users.
    """
    application = Springtide()
    arguments = [f"--state-dir={state_dir}", *([f"--config={config}"] if config else [])]
    try:
        application.configure_from("", arguments)
        accounts = application.setup().accounts
        with StateDir(state_dir).locked():
            changed = {} if accounts is None else accounts.renumber()
    except (SettingError, StateError, AccountError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        print_json({user: {"before": before, "after": after} for user, (before, after) in changed.items()})
        return
    for user, (before, after) in sorted(changed.items()):
        click.echo(f"{user} had the uid {before} and has {after} now.")
    if not changed:
        click.echo("No user of this pool shares a uid with another pool of this machine.")

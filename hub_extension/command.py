"""The ``springtide`` command."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, NamedTuple

import click

from springtide.hub_extension.commands.text import INTERRUPTED, open_outputs, printable, refusal_words
from springtide.scheduler.client import PoolError, Unreachable
from springtide.scheduler.process_tuning import loading

BAD_INPUT_STATUS = frozenset({400, 413, 422})


class Entry(NamedTuple):
    """Import path of a command, the extra that it needs, and its help text."""

    path: str
    extra: str
    help: str


HERE = "springtide.hub_extension.commands"
COMMANDS = {
    "up": Entry(
        f"{HERE}.up:up", "hub", "Run a hub with build notebooks and a pool of train GPUs on this machine."
    ),
    "submit": Entry(f"{HERE}.submit:submit", "", "Send a command to the pool, with the code it needs."),
    "advise": Entry(
        f"{HERE}.submit:advise", "", "Compare your earlier runs by GPU type, number of GPUs and nodes."
    ),
    "rerun": Entry(f"{HERE}.submit:rerun", "", "Run a job again, with other options."),
    "checkpoints": Entry(f"{HERE}.forks:checkpoints", "", "List the checkpoints of a job, or delete some."),
    "fork": Entry(f"{HERE}.forks:fork", "", "Continue a job from a checkpoint, with other arguments or code."),
    "jobs": Entry(f"{HERE}.jobs:jobs", "", "List jobs, newest first."),
    "runs": Entry(f"{HERE}.runs:runs", "", "Export runs with their metrics to MLflow, W&B or CSV."),
    "show": Entry(f"{HERE}.jobs:show", "", "Show a job: its state, request and outputs."),
    "logs": Entry(f"{HERE}.jobs:logs", "", "Show the log of a job."),
    "exec": Entry(f"{HERE}.exec:exec_in_job", "", "Open a terminal in a running job, or run a command in it."),
    "stack": Entry(f"{HERE}.exec:stack", "", "Show where a running job is now, or hangs."),
    "wait": Entry(f"{HERE}.results:wait", "", "Wait until jobs have ended; the exit code is their outcome."),
    "result": Entry(f"{HERE}.results:result", "", "Print the result of a job, once it has ended, as JSON."),
    "outputs": Entry(f"{HERE}.results:outputs", "", "List the output files of a job."),
    "download": Entry(f"{HERE}.results:download", "", "Save the output files of a job."),
    "tag": Entry(f"{HERE}.jobs:tag", "", "Add tags to a job, or remove some."),
    "pause": Entry(f"{HERE}.jobs:pause", "", "Pause jobs at their next checkpoint until you resume them."),
    "resume": Entry(f"{HERE}.jobs:resume", "", "Let jobs that you paused run again."),
    "hold": Entry(
        f"{HERE}.interventions:hold",
        "",
        "Put jobs on hold: they are paused, and do not start until they are released.",
    ),
    "release": Entry(f"{HERE}.interventions:release", "", "Let jobs that are on hold start again."),
    "edit": Entry(
        f"{HERE}.interventions:edit",
        "",
        "Change priority, time limit, workers or project of jobs that do not run.",
    ),
    "finish": Entry(
        f"{HERE}.jobs:finish", "", "Mark waiting jobs as finished: they succeed, and are not run again."
    ),
    "cancel": Entry(f"{HERE}.jobs:cancel", "", "End jobs for good."),
    "delete": Entry(f"{HERE}.jobs:delete", "", "Delete ended jobs with their files."),
    "projects": Entry(
        f"{HERE}.pool:projects", "", "Show each project's quota and what it holds, borrows, waits for."
    ),
    "default-project": Entry(
        f"{HERE}.pool:default_project", "", "Choose the project of your jobs that name none."
    ),
    "set-project": Entry(
        f"{HERE}.interventions:set_project", "", "Change quota, limit or priority of a project, maybe for a time."
    ),
    "people": Entry(f"{HERE}.people:people", "", "Show who is in your projects, and who leads them."),
    "groups": Entry(
        f"{HERE}.groups:groups", "simulate", "Show which groups of your identity provider are which projects."
    ),
    "join": Entry(f"{HERE}.joining:join", "simulate", "Put a person into projects, maybe with a build quota."),
    "leave": Entry(
        f"{HERE}.joining:leave", "simulate", "End what a person has: hand over jobs, free quota and projects."
    ),
    "export": Entry(f"{HERE}.pool_file:export", "simulate", "Write projects, quotas and members as a file."),
    "apply": Entry(f"{HERE}.pool_file:apply", "simulate", "Make projects, quotas and members as a file has them."),
    "copy-rules": Entry(f"{HERE}.pool_file:copy_rules", "simulate", "Give a project the rules of another one."),
    "budget": Entry(f"{HERE}.budget:budget", "", "Give a project a budget for each month, or show the budgets."),
    "freeze": Entry(
        f"{HERE}.interventions:freeze", "", "Let no job of a project start; those that run are paused."
    ),
    "unfreeze": Entry(f"{HERE}.interventions:unfreeze", "", "Let the jobs of a project start again."),
    "datasets": Entry(f"{HERE}.pool:datasets", "", "Show the datasets that your jobs may name."),
    "presets": Entry(f"{HERE}.presets:presets", "", "Show the presets of jobs, define and delete them."),
    "nodes": Entry(f"{HERE}.pool:nodes", "", "Show each node's GPUs and who holds them."),
    "drain": Entry(
        f"{HERE}.pool:drain", "", "Let nothing new start on nodes or GPUs; their jobs continue elsewhere."
    ),
    "undrain": Entry(f"{HERE}.pool:undrain", "", "Let jobs start on nodes or GPUs again."),
    "book": Entry(
        f"{HERE}.bookings:book", "", "Book nodes for a maintenance, or GPUs for a project, for a time to come."
    ),
    "bookings": Entry(f"{HERE}.bookings:bookings", "", "Show the bookings that hold or are to come."),
    "unbook": Entry(f"{HERE}.bookings:unbook", "", "Cancel bookings."),
    "request": Entry(
        f"{HERE}.change_requests:request", "", "Ask for quota, build GPUs or a membership, and decide requests."
    ),
    "free": Entry(f"{HERE}.pool:free_gpus", "", "Return GPUs whose holder has no place in the pool."),
    "audit": Entry(f"{HERE}.audit:audit", "", "Show who did what, and export it."),
    "needs": Entry(f"{HERE}.needs:needs", "", "List what needs an administrator."),
    "report": Entry(f"{HERE}.report:report", "", "Report GPU-hours, waits and costs."),
    "what-if": Entry(f"{HERE}.what_if:what_if", "", "Simulate the last weeks with other nodes, quotas or rules."),
    "history": Entry(f"{HERE}.history:history", "", "Export the pool's past as a scenario to simulate."),
    "top": Entry(f"{HERE}.pool:top", "", "Watch the pool."),
    "explain": Entry(f"{HERE}.explain:explain", "", "Explain why a job waits, runs or has ended."),
    "mcp": Entry(f"{HERE}.mcp:mcp", "mcp", "Let an AI assistant use the pool in your name, as its MCP server."),
    "env": Entry(f"{HERE}.env:env", "", "Make environments of your own, with kernels for your notebooks."),
    "image-contents": Entry(
        "springtide.scheduler.capture.environment:image_contents",
        "",
        "Print what an image contains, to declare it.",
    ),
    "replay": Entry(f"{HERE}.replay:replay", "hub", "Plan a stored decision again, and compare the plans."),
    "renumber": Entry(
        f"{HERE}.renumber:renumber", "hub", "Give other uids to users who share one with another pool."
    ),
    "doctor": Entry(f"{HERE}.doctor:doctor", "hub", "Check a set-up, and suggest a remedy for each problem."),
    "backup": Entry(f"{HERE}.backup:backup", "hub", "Save the pool's state in a file, also while it runs."),
    "restore": Entry(f"{HERE}.backup:restore", "hub", "Put a backup in place of the pool's state."),
    "plan": Entry(
        "springtide.scheduler.plan_commands:plan", "simulate", "Show the policy's decisions for a scenario."
    ),
    "simulate": Entry(
        "springtide.scheduler.plan_commands:simulate", "simulate", "Run a scenario or trace in virtual time."
    ),
}


class NotDoneError(click.ClickException):
    """The command failed."""

    exit_code = 1


class BadInputError(click.ClickException):
    """The input of the command is invalid."""

    exit_code = 2


class Springtide(click.Group):
    """Group of the commands, each imported when it is used: most need no hub, and start fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - of click
        """Return the names of the commands in the order of their use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - of click
        """Import a command and return it. Raises `NotDoneError` if a library that it needs is not installed."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, _, name = entry.path.partition(":")
        try:
            found = getattr(imported(module), name)
        except ModuleNotFoundError as error:
            raise missing(cmd_name, entry.extra, error) from error
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - of click
        """Write the list of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run the command line. An output that cannot be written is an error in a sentence."""
        open_outputs()
        return super().main(*arguments, **options)

    def invoke(self, ctx: click.Context) -> object:
        """Run a command. Raises `NotDoneError` or `BadInputError` with a sentence for errors of the pool.

        A command that needs the working directory, where that was removed, is an error of this kind too. One that
        Ctrl-C ends has the exit code `INTERRUPTED`.
        """
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo(err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None
        except FileNotFoundError as error:
            from springtide.scheduler.capture.place import (  # noqa: PLC0415 - most commands start faster without it
                removed_working_directory,
            )

            removed = removed_working_directory()
            if removed is None:
                raise
            raise NotDoneError(removed) from error
        except PoolError as error:
            bad_input = error.problem.field is not None or error.status in BAD_INPUT_STATUS
            raise (BadInputError if bad_input else NotDoneError)(refusal_words(error)) from error
        except Unreachable as error:
            raise NotDoneError(printable(str(error))) from error


def imported(module: str) -> ModuleType:
    """Return a module. What its first import makes stays: no collection of garbage looks at it."""
    if module in sys.modules:
        return sys.modules[module]
    with loading():
        return import_module(module)


def missing(command: str, extra: str, error: ModuleNotFoundError) -> NotDoneError:
    """Return the error of a command whose library is not installed."""
    from springtide.hub_extension.commands.missing_extras import remedy  # noqa: PLC0415 - most commands start faster without it

    how = remedy(command, extra)
    package = (error.name or "").partition(".")[0]
    if package != error.name and find_spec(package) is not None:
        return NotDoneError(
            f"`springtide {command}` needs {error.name}, which the {package} that is installed does not have. If "
            f"something else here needs that version, use an environment of its own: {how}"
        )
    return NotDoneError(f"`springtide {command}` needs {error.name}, which is not installed: {how}")


@click.command(cls=Springtide, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="springtide")
def main() -> None:
    """Build notebooks with a fixed GPU quota, and one shared pool of train GPUs with guaranteed quotas.

    In a notebook of the hub the commands know the pool. Elsewhere set SPRINGTIDE_URL to the service's address
    and JUPYTERHUB_API_TOKEN to a token of the hub's token page.
    """

"""``springtide budget``."""

from __future__ import annotations

from typing import Literal

import click

from springtide.hub_extension.commands.text import json_option, one_line, print_json, print_table
from springtide.scheduler.client import Client
from springtide.scheduler.sentences import budget_amount
from springtide.scheduler.wire import BudgetRequest, BudgetView

HEADER = ("PROJECT", "MONTH", "SPENT", "BUDGET", "PART", "BEYOND IT")


@click.command()
@click.argument("name", metavar="[PROJECT]", required=False)
@click.argument("amount", metavar="[AMOUNT]", type=click.FloatRange(0, min_open=True), required=False)
@click.option("--gpu-hours", is_flag=True, help="The amount is in GPU-hours, not in the currency of the prices.")
@click.option(
    "--beyond",
    type=click.Choice(["tell", "no-borrowing", "last"]),
    default="tell",
    show_default=True,
    help="Effect once it is spent: people are notified, jobs run only within the quota, or go last beyond it.",
)
@click.option("--remove", is_flag=True, help="Take the budget away.")
@json_option
def budget(
    *,
    name: str | None,
    amount: float | None,
    gpu_hours: bool,
    beyond: Literal["tell", "no-borrowing", "last"],
    remove: bool,
    as_json: bool,
) -> None:
    """Give a project a budget for each month, or show the budgets: budget vision 1200 --beyond no-borrowing."""
    if remove and (name is None or amount is not None):
        raise click.UsageError("Give a project and no amount with --remove.")
    with Client() as client:
        if remove and name is not None:
            client.remove_budget(name)
            if not as_json:
                click.echo(one_line(f"{name} has no budget any more."))
            return
        if name is not None and amount is not None:
            unit: Literal["money", "gpu-hours"] = "gpu-hours" if gpu_hours else "money"
            view = client.set_budget(name, BudgetRequest(amount=amount, unit=unit, beyond=beyond))
            print_json(view) if as_json else click.echo(one_line(view.text))
            return
        found = [each for each in client.admin().budgets if name in {None, each.project}]
    if as_json:
        print_json(found)
    else:
        print_table(
            HEADER, [_row(each) for each in found], empty="No budgets. Admins set them: springtide budget -h."
        )


def _row(view: BudgetView) -> tuple[object, ...]:
    spent, amount = (budget_amount(each, view.unit, view.currency) for each in (view.spent, view.amount))
    return view.project, view.month, spent, amount, f"{view.spent / view.amount:.0%}", view.beyond

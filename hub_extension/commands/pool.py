"""``springtide projects``, ``nodes``, ``drain``, ``free``, ``top`` and other commands about the pool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import click
import msgspec

from springtide.hub_extension.commands.bulk import on_each
from springtide.hub_extension.commands.text import json_option, one_line, print_json, print_table, table
from springtide.hub_extension.commands.times import end_words, until_option
from springtide.scheduler.budgets import BeyondBudget
from springtide.scheduler.client import Client
from springtide.scheduler.wire import (
    AWAY,
    DRAINED,
    CardsView,
    GpuCell,
    MeEdit,
    NodeGroupView,
    NodeView,
    PoolView,
    ProjectView,
    TypeNumbers,
    UnmatchedView,
)
from springtide.scheduler.wire.audit_table import value_words
from springtide.scheduler.wording import LISTED, cores_and_memory, count, free, gpus, with_offset

PROJECT_HEADER = (
    "PROJECT",
    "QUOTA",
    "HELD",
    "BORROWED",
    "WAITING",
    "FAIR SHARE",
    "LIMIT",
    "BUILD QUOTA",
    "ITS JOBS",
)
GROUPS_HEADER = ("NODE GROUP", "TYPE", "GPUS PER NODE", "NODES", "ASKED FOR", "AT MOST", "SINCE", "ERROR")
TOPOLOGY_HEADER = ("NODE", "FOR", "TYPE", "GPUS", "LINKED BY NVLINK", "ON A SOCKET", "NETWORK CARDS", "LABELS")
BAR = 40
NO_DEFAULT = "A job that names no project is for your only one, or for that of your latest job."
GpuCommand = TypeVar("GpuCommand", bound=Callable[..., Any])


def gpu_option(command: GpuCommand) -> GpuCommand:
    """Add ``--gpu``, as the parameter ``gpus``."""
    text = "Only this GPU of the node, by its number from 0; may be repeated."
    return click.option("--gpu", "gpus", type=click.IntRange(min=0), multiple=True, help=text)(command)


@click.command()
@json_option
def projects(*, as_json: bool) -> None:
    """Show each project's quota and what it holds, borrows and waits for, in GPUs."""
    with Client() as client:
        pool = client.pool()
    if as_json:
        print_json(pool.projects)
        return
    rows = [row for path, project in as_tree(pool.projects) for row in project_rows(path, project, pool)]
    print_table(header(pool), rows, empty="No projects. An admin makes them on Springtide's admin page.")
    for line in (*freeze_lines(pool.projects), *ending_lines(pool.projects), *budget_lines(pool.projects)):
        click.echo(one_line(line))


def freeze_lines(views: Iterable[ProjectView]) -> Iterator[str]:
    """Yield a line for each frozen project: by whom, since and until when, and why."""
    for view in views:
        if (freeze := view.freeze) is not None and freeze.project == view.name:
            until = "" if freeze.until is None else f", until {with_offset(freeze.until)}"
            why = f": {freeze.why}" if freeze.why else ""
            yield f"{view.name} was frozen by {freeze.by} at {with_offset(freeze.since)}{until}{why}"


def ending_lines(views: Iterable[ProjectView]) -> Iterator[str]:
    """Yield a line for each value of a project that ends by itself: when, and what returns then."""
    for view in views:
        for name, ending in view.endings.items():
            refused = f" It could not return so far: {ending.refused}" if ending.refused else ""
            before = value_words(ending.before)
            yield f"{name} of {view.name}: {before} again at {with_offset(ending.until)}.{refused}"


def budget_lines(views: Iterable[ProjectView]) -> Iterator[str]:
    """Yield a line for each project that has spent its budget: what that does to its jobs."""
    for view in views:
        if view.spent_budget is not None:
            yield f"{view.name}: {view.spent_budget.text}"


@click.command("default-project")
@click.argument("name", metavar="[PROJECT]", required=False)
@click.option("--none", "remove", is_flag=True, help="Remove the choice.")
@json_option
def default_project(*, name: str | None, remove: bool, as_json: bool) -> None:
    """Choose the project of your jobs that name none, or show which it is."""
    if name is not None and remove:
        msg = "Give a project, or --none to remove the choice."
        raise click.UsageError(msg)
    with Client() as client:
        me = client.edit_me(MeEdit(default_project=name)) if name is not None or remove else client.me()
    if as_json:
        print_json({"default_project": me.default_project})
    else:
        click.echo(one_line(me.default_project or f"None. {NO_DEFAULT}"))


@click.command()
@json_option
def datasets(*, as_json: bool) -> None:
    """Show the datasets that your jobs may name, with the path of each."""
    with Client() as client:
        declared = client.datasets()
    if as_json:
        print_json(declared)
        return
    rows = [(dataset.name, dataset.path, ", ".join(dataset.projects)) for dataset in declared]
    print_table(("DATASET", "DIRECTORY", "PROJECTS"), rows, empty="No datasets. An admin declares them.")


def header(pool: PoolView) -> tuple[str, ...]:
    """Return the heads of the projects' table, with one for the GPU type if the pool has several."""
    return (
        (PROJECT_HEADER[0], "TYPE", *PROJECT_HEADER[1:]) if pool.by_type or pool.build_by_type else PROJECT_HEADER
    )


def project_rows(path: str, project: ProjectView, pool: PoolView) -> list[tuple[object, ...]]:
    """Return the lines of the projects' table: one, or one for each GPU type if the pool has several."""
    if not pool.by_type and not pool.build_by_type:
        return [(path, *_numbers(project, project), project.build_quota, project.ranges.words())]
    train: Mapping[str, ProjectView | TypeNumbers] = project.by_type or {"".join(pool.gpu_types): project}
    build = project.build_by_type or _build_quota(project, pool)
    rows: list[tuple[object, ...]] = []
    for gpu_type in dict.fromkeys((*train, *build)):
        numbers = train.get(gpu_type)
        first = not rows
        rows.append(
            (
                path if first else "",
                gpu_type,
                *(_numbers(project, numbers) if numbers is not None else ("",) * 6),
                build.get(gpu_type, ""),
                project.ranges.words() if first else "",
            )
        )
    return rows


def _build_quota(project: ProjectView, pool: PoolView) -> dict[str, int]:
    """Return the build quota of the only type of build GPUs; empty if there are none."""
    types = [node.gpu_type for node in pool.nodes if node.environment == "build" and node.gpus]
    return {types[0]: project.build_quota} if types else {}


def _numbers(project: ProjectView, of: ProjectView | TypeNumbers) -> tuple[object, ...]:
    """Return the numbers of a project, in all or of a type: a spent budget may make its quota its limit."""
    limits = [of.limit]
    if project.spent_budget is not None and project.spent_budget.beyond == BeyondBudget.NO_BORROWING:
        limits.append(of.quota)
    limit = min((each for each in limits if each is not None), default=None)
    return (
        "none" if of.quota is None else of.quota,
        of.held,
        of.borrowed,
        of.waiting,
        of.fair_share,
        "none" if limit is None else limit,
    )


def as_tree(views: list[ProjectView]) -> Iterator[tuple[str, ProjectView]]:
    """Yield each project followed by those under it, with its path such as ``research/vision``."""
    names = {view.name for view in views}

    def under(parent: str | None, path: str) -> Iterator[tuple[str, ProjectView]]:
        for view in views:
            if (view.parent if view.parent in names else None) == parent:
                yield path + view.name, view
                yield from under(view.name, f"{path}{view.name}/")

    return under(None, "")


@click.command()
@click.option("--topology", is_flag=True, help="Show how the GPUs are linked, and the nodes' labels, instead.")
@json_option
def nodes(*, topology: bool, as_json: bool) -> None:
    """Show each node's GPUs and who holds them."""
    with Client() as client:
        pool = client.pool()
    if as_json:
        print_json(pool.nodes)
        return
    if topology:
        rows = [topology_row(node) for node in pool.nodes]
        print_table(TOPOLOGY_HEADER, rows, empty="No nodes with GPUs.")
        return
    print_table(
        ("NODE", "FOR", "TYPE", "GPUS", "FREE", "STATE", "LIMITS", "HELD BY"),
        [node_row(node) for node in pool.nodes],
        empty="No nodes with GPUs.",
    )
    for line in (*drain_lines(pool.nodes), *unmatched_lines(pool.unmatched)):
        click.echo(one_line(line))
    if pool.node_groups:
        click.echo("")
        print_table(GROUPS_HEADER, [group_row(group) for group in pool.node_groups], empty="")


def group_row(group: NodeGroupView) -> tuple[object, ...]:
    """Return one line of the table of node groups."""
    since = "" if group.since is None else with_offset(group.since)
    return (
        group.name,
        group.gpu_type,
        group.gpus,
        group.nodes,
        group.asked,
        group.most,
        since or "-",
        group.error,
    )


def unmatched_lines(unmatched: Iterable[UnmatchedView]) -> Iterator[str]:
    """Yield a line for each holder that keeps GPUs out of the pool: why, since when, and what an admin can do."""
    for holder in unmatched:
        since = with_offset(holder.since)
        which = f": {', '.join(holder.gpus)}" if len(holder.gpus) > LISTED else ""
        out = (
            f" It keeps {gpus(len(holder.gpus))} out of the pool until it has ended{which}." if holder.gpus else ""
        )
        yield f"{holder.why}{out} It started at {since}. {holder.change} (springtide free {holder.holder} --end)"


def drain_lines(nodes: Iterable[NodeView]) -> Iterator[str]:
    """Yield a line for each drained node and GPU: by whom, since when and why."""
    for node in nodes:
        drained = [
            (node.name, node.drain),
            *((f"GPU {cell.index} of {node.name}", cell.drain) for cell in node.gpus),
        ]
        for what, drain in drained:
            if drain is not None:
                until = "" if drain.until is None else f", until {with_offset(drain.until)}"
                why = f": {drain.why}" if drain.why else ""
                by = drain.by if drain.booking is None else f"booking {drain.booking} of {drain.by}"
                yield f"{what} was drained by {by} at {with_offset(drain.since)}{until}{why}"


def node_row(node: NodeView) -> tuple[object, ...]:
    """Return one line of the nodes' table."""
    state = "available" if node.available else DRAINED if node.drain else closed_words(node)
    gpus = sum(cell.drain is not None for cell in node.gpus)
    if gpus and not node.drain:
        state += f", {count(gpus, 'GPU')} drained"
    return (
        node.name,
        node.environment,
        node.gpu_type,
        len(node.gpus),
        free(node.free),
        f"{state}, simulated" if node.simulated and node.gpu_type != "simulated" else state,
        "; ".join(filter(None, [node.limits, each_gpu_words(node), rdma_words(node)])),
        ", ".join(f"{who} {number}" for who, number in holders(node.gpus).items()),
    )


def closed_words(node: NodeView) -> str:
    """Return why the cluster has closed a node, and since when."""
    since = "" if node.closed_since is None else f" since {with_offset(node.closed_since)}"
    return f"{node.closure}{since}" if node.closure else AWAY


def each_gpu_words(node: NodeView) -> str:
    """Return the cores and memory that come with each GPU of a node, empty if unknown."""
    found = cores_and_memory(node.cpus_per_gpu, node.memory_per_gpu)
    return f"{found} per GPU" if found else ""


def rdma_words(node: NodeView) -> str:
    """Return how many workers on a node may have RDMA, empty if none may."""
    if not node.rdma_workers:
        return ""
    return "RDMA" if node.rdma_workers == len(node.gpus) else f"RDMA for {count(node.rdma_workers, 'worker')}"


def topology_row(node: NodeView) -> tuple[object, ...]:
    """Return one line of the topology's table: groups of GPUs with bars between, ``-`` if none is known."""
    labels = ", ".join(f"{level} {domain}" for level, domain in sorted(node.labels.items()))
    groups = (" | ".join(map(ranges, of)) or "-" for of in (node.islands, node.sockets))
    cards = " | ".join(map(cards_words, node.cards)) or "-"
    return (node.name, node.environment, node.gpu_type, len(node.gpus), *groups, cards, labels or "-")


def cards_words(cards: CardsView) -> str:
    """Return which GPUs network cards are nearest to, and by what: ``0-1: mlx5_0,mlx5_1 (switch)``."""
    return f"{ranges(cards.gpus)}: {','.join(cards.names)} ({cards.within})"


def ranges(indices: Sequence[int]) -> str:
    """Return sorted numbers with those that follow each other as ranges: ``0-3,6``."""
    runs: list[list[int]] = []
    for index in indices:
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def holders(cells: list[GpuCell]) -> dict[str, int]:
    """Return how many GPUs each holder has: a project, a person's notebook, or something outside."""
    found: dict[str, int] = {}
    for cell in cells:
        if cell.holder is not None:
            outside = cell.holder.name if cell.holder.kind == "foreign" else ""
            who = cell.holder.project or cell.holder.user or outside or cell.holder.kind
            found[who] = found.get(who, 0) + 1
    return found


@click.command()
@click.argument("names", metavar="NODE...", nargs=-1, required=True)
@gpu_option
@click.option("--reason", default="", help="Reason, shown to everyone whose job has to leave.")
@click.option("--finish", is_flag=True, help="Let the jobs there run to their end instead of pausing them.")
@until_option
@json_option
def drain(
    *,
    names: tuple[str, ...],
    gpus: tuple[int, ...],
    reason: str,
    finish: bool,
    until: float | None,
    as_json: bool,
) -> None:
    """Let nothing new start on nodes, or on single GPUs of a node.

    Jobs there save their work and continue elsewhere; notebooks stay.
    """

    def act(place: tuple[str, int | None]) -> None:
        name, gpu = place
        node = client.drain_node(name, reason, gpu=gpu, finish=finish, until=until)
        if as_json:
            print_json(node)
            return
        there = [cell for cell in node.gpus if gpu in {None, cell.index}]
        held = ", ".join(f"{who} {number}" for who, number in holders(there).items())
        ends = "" if until is None else f" until {end_words(until)}"
        click.echo(one_line(f"{_named(name, gpu)} is drained{ends}. Held there now: {held or 'nothing'}."))

    with Client() as client:
        on_each(_drainable(names, gpus), act)


def _drainable(names: tuple[str, ...], gpus: tuple[int, ...]) -> list[tuple[str, int | None]]:
    """Return the nodes, or the GPUs of the only node. Raises `click.UsageError` for GPUs of several nodes."""
    if gpus and len(names) > 1:
        raise click.UsageError("--gpu needs exactly one node.")
    return [(name, gpu) for name in names for gpu in (gpus or (None,))]


def _named(name: str, gpu: int | None) -> str:
    return name if gpu is None else f"GPU {gpu} of {name}"


@click.command()
@click.argument("names", metavar="NODE...", nargs=-1, required=True)
@gpu_option
def undrain(*, names: tuple[str, ...], gpus: tuple[int, ...]) -> None:
    """Let jobs start on nodes, or on single GPUs of a node, again."""

    def act(place: tuple[str, int | None]) -> None:
        name, gpu = place
        client.undrain_node(name, gpu=gpu)
        node = next((node for node in client.pool().nodes if node.name == name), None)
        again = gpu is None and node is not None and node.drain is not None
        ended = "is not drained any more by hand." if again else "is not drained any more."
        click.echo(one_line(f"{_named(name, gpu)} {ended}"))
        if node is not None:
            for line in drain_lines([node if gpu is None else msgspec.structs.replace(node, gpus=[])]):
                click.echo(one_line(f"Still drained: {line}"))

    with Client() as client:
        on_each(_drainable(names, gpus), act)


@click.command("free")
@click.argument("holders", metavar="HOLDER...", nargs=-1, required=True)
@click.option("--end", is_flag=True, help="End it first: a job saves, leaves its GPUs and resumes on others.")
@click.option("--yes", is_flag=True, help="Do not ask whether you are sure.")
def free_gpus(*, holders: tuple[str, ...], end: bool, yes: bool) -> None:
    """Return GPUs to the pool whose holder has no place in it; `springtide nodes` lists such holders.

    Without --end this is refused while processes of the holder live.
    """
    with Client() as client:
        known = {each.holder: each for each in client.pool().unmatched}

        def act(holder: str) -> None:
            if holder in known and not yes:
                click.echo(one_line(known[holder].why))
                click.confirm("End it?" if end else "Has it ended, and are its GPUs free?", abort=True)
            client.free_gpus(holder, end=end)
            said = "was asked to end; its GPUs are free once it has" if end else "holds no GPUs any more"
            click.echo(one_line(f"{holder} {said}."))

        on_each(holders, act)


@click.command()
@click.option("--once", is_flag=True, help="Show it once instead of staying.")
@json_option
def top(*, once: bool, as_json: bool) -> None:
    """Watch the pool: a line for each project, a bar for each node. Ctrl-C ends it."""
    with Client() as client:
        show(client.pool(), as_json=as_json, clear=not once)
        if once:
            return
        for event in client.events():
            if event.kind == "pool":
                show(msgspec.convert(event.data, PoolView), as_json=as_json, clear=True)


def show(pool: PoolView, *, as_json: bool, clear: bool) -> None:
    """Print the pool, as one line of JSON or as a screen."""
    if as_json:
        print_json(pool)
        return
    if clear:
        click.clear()
    click.echo("\n".join(screen(pool)))


def screen(pool: PoolView) -> Iterator[str]:
    """Yield the lines of a screen."""
    kind = "simulated " if pool.simulated else ""
    uses = [
        f"{use.train_held} of {count(use.train_gpus, f'{kind}train {t} GPU')}" for t, use in pool.by_type.items()
    ]
    train = ", ".join(uses) or f"{pool.train_held} of {count(pool.train_gpus, f'{kind}train GPU')}"
    build = f"{pool.build_held} of {count(pool.build_gpus, f'{kind}build GPU')} in notebooks"
    yield f"{train} held, {free(pool.train_free)}; {build}"
    yield ""
    several = bool(pool.by_type)
    rows = []
    for path, view in as_tree(pool.projects):
        of_types: Mapping[str, ProjectView | TypeNumbers] = view.by_type or {"": view}
        for at, (gpu_type, of) in enumerate(of_types.items()):
            names = ((path if at == 0 else ""), gpu_type) if several else (path,)
            rows.append((*names, *_numbers(view, of)[:4], project_bar(of)))
    heads = (
        *(("PROJECT", "TYPE", *PROJECT_HEADER[1:5]) if several else PROJECT_HEADER[:5]),
        "# held, / borrowed, . waiting, _ left of the quota |",
    )
    yield from table(heads, rows)
    yield ""
    for node in pool.nodes:
        bar = "".join(cell_mark(cell) for cell in node.gpus)
        who = ", ".join(f"{name} {number}" for name, number in {**holders(node.gpus), **node.free}.items())
        name = node.name if node.name == node.environment else f"{node.name} ({node.environment})"
        yield one_line(f"{name} [{bar}] {who}")


def cell_mark(cell: GpuCell) -> str:
    """Return the mark of one GPU: held, borrowed, reserved or free."""
    if cell.holder is None:
        return "+" if cell.reserved_for else "."
    return "/" if cell.holder.borrowed else "#"


def project_bar(view: ProjectView | TypeNumbers) -> str:
    """Return a project's GPUs in a line, with its quota as a mark where it ends; cut if it gets too long."""
    bar = "#" * (view.held - view.borrowed) + "/" * view.borrowed + "." * view.waiting
    if view.quota is None:
        return bar[:BAR]
    bar = bar.ljust(view.quota, "_")
    return (bar[: view.quota] + "|" + bar[view.quota :])[:BAR]

"""``springtide doctor``."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

import click

from springtide.hub_extension.commands.text import json_option, one_line, print_json
from springtide.hub_extension.doctor import machine, network
from springtide.hub_extension.doctor.findings import Finding, Status, note, ok, problem, wrong
from springtide.hub_extension.doctor.needs import needs
from springtide.hub_extension.doctor.pool import datasets, running_notebooks, secrets
from springtide.hub_extension.local_hub.single import host_file
from springtide.hub_extension.service.service import Springtide
from springtide.hub_extension.service.setup import Setup
from springtide.scheduler.executors.accounts import AccountError
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.settings import SettingError
from springtide.scheduler.store.ledger import HOUR
from springtide.scheduler.store.opening import parse_url
from springtide.scheduler.wording import count

MARKS = {Status.OK: "ok     ", Status.NOTE: "note   ", Status.PROBLEM: "PROBLEM"}


@click.command()
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="State directory of the pool; springtide-state unless the configuration names another.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The configuration file of the hub or the service.",
)
@click.option("--url", help="Address of the pool's service, if it is not on this machine.")
@json_option
def doctor(*, state_dir: Path | None, config: Path | None, url: str | None, as_json: bool) -> None:
    """Check a set-up, and suggest a remedy for each problem. Nothing is changed.

    Run it as the account, on the machine and with the configuration of the hub; on a cluster, in the pod of the
    service. The exit code is 1 if something is wrong.
    """
    findings = list(findings_of(state_dir, config, url))
    if as_json:
        print_json(findings)
    else:
        for finding in findings:
            for line in lines_of(finding):
                click.echo(line)
        problems = sum(finding.status is Status.PROBLEM for finding in findings)
        click.echo(f"{count(problems, 'problem')} in {count(len(findings), 'check')}.")
    if wrong(findings):
        raise click.exceptions.Exit(1)


def lines_of(finding: Finding) -> Iterator[str]:
    """Yield the printed lines of a finding."""
    yield f"{MARKS[finding.status]}  {finding.check}: {one_line(finding.said)}"
    if finding.remedy:
        yield f"         → {one_line(finding.remedy)}"


def findings_of(state_dir: Path | None, config: Path | None, url: str | None) -> Iterator[Finding]:
    """Yield the findings of all checks that apply to the set-up."""
    yield from machine.versions()
    if "JUPYTERHUB_USER" in os.environ and state_dir is None and config is None:
        here = "This is a notebook server: the pool's set-up is checked where the hub runs, by its administrator."
        yield note("settings", here, "Ask why a job waits with `springtide explain JOB`.")
        url = url or os.environ.get("SPRINGTIDE_URL")
        if url is not None:
            yield from network.service(url)
        return
    application = Springtide()
    try:
        setup = _setup(application, state_dir, config)
    except SettingError as error:
        yield problem("settings", str(error), "Correct the configuration file.")
        return
    yield ok("settings", "The service can start with them.")
    yield from machine.state_directory(setup.state_dir)
    if setup.state_dir.is_dir():
        yield from machine.disk(setup.state_dir)
    yield from _store(setup)
    yield from needs(setup.state_dir, setup.database_url, time.time(), setup.engine.backup_hours * HOUR)
    yield from machine.hub_database(setup.state_dir)
    yield from machine.descriptors()
    yield from machine.clock()
    if setup.cluster is None:
        yield from _one_machine(setup, application)
    else:
        yield from asyncio.run(_cluster(setup, setup.cluster))
    if url is not None:
        yield from network.service(url)


def _setup(application: Springtide, state_dir: Path | None, config: Path | None) -> Setup:
    arguments = [
        *([f"--config={config}"] if config else []),
        *([f"--state-dir={state_dir}"] if state_dir else []),
    ]
    application.configure_from("", arguments)
    settings = application.settings()
    alone = os.geteuid() != 0 and not settings.accounts and settings.executor == "local"
    if alone and (Path(settings.state_dir).expanduser() / "hub" / "up.lock").exists():
        application.accounts = "shared"  # as `springtide up` has it if it does not run as root
    return application.setup()


def _store(setup: Setup) -> Iterator[Finding]:
    url = parse_url(setup.database_url)
    if url.get_backend_name() == "sqlite":
        yield from machine.store(Path(str(url.database)), setup.state_dir)
        return
    from springtide.hub_extension.doctor import pool  # noqa: PLC0415 - the driver is an extra

    yield from pool.check(setup.database_url)


def _one_machine(setup: Setup, application: Springtide) -> Iterator[Finding]:
    yield from _accounts(setup)
    yield from machine.gpus(setup.settings.simulated_gpus, setup.settings.build_gpus, setup.engine.types)
    yield from machine.limits(setup.limits)
    yield from datasets(setup.engine.datasets)
    yield from secrets(setup.engine.secrets)
    yield from network.ports(setup.state_dir)
    if setup.state_dir.is_dir():
        yield from running_notebooks(setup.state_dir, setup.accounts)
        yield from network.subdomains(_subdomain_host(setup, application))


def _subdomain_host(setup: Setup, application: Springtide) -> str:
    """Return the host below which notebooks have names of their own: the configured one, or that of `up`."""
    configured, written = application.config.JupyterHub, host_file(setup.state_dir)
    if "subdomain_host" in configured or not written.is_file():
        return str(configured.get("subdomain_host", ""))
    return written.read_text().strip()


def _accounts(setup: Setup) -> Iterator[Finding]:
    if setup.accounts is None:
        yield Finding(
            "accounts",
            Status.NOTE,
            "All jobs and notebooks run as one account: all users must trust each other.",
            "Run the hub as root, with c.Springtide.accounts = 'own', if they do not.",
        )
        return
    try:
        setup.accounts.check()
        shared = setup.accounts.shared_uids()
    except AccountError as error:
        yield problem("accounts", str(error), "See docs/admin.md, Accounts.")
        return
    for each in shared:
        yield problem(
            "accounts",
            f"{each.user} has the uid {each.uid} here, and {each.other_user} has it in the pool {each.pool}: they "
            "can read each other's files and end each other's jobs.",
            f"Stop both hubs, their notebooks and jobs, then: springtide renumber --state-dir {setup.state_dir}",
        )
    if not shared:
        yield ok("accounts", "Each user's jobs and notebooks run as an account of her own.")


async def _cluster(setup: Setup, settings: KubernetesSettings) -> list[Finding]:
    try:
        from springtide.hub_extension.doctor.cluster import cluster  # noqa: PLC0415 - the extra may be missing
        from springtide.scheduler.kube import connect  # noqa: PLC0415
    except ModuleNotFoundError as error:
        return [problem("cluster", f"{error.name} is not installed.", "pip install 'springtide[hub,kubernetes]'")]
    kubeconfig = os.environ.get("KUBECONFIG")
    api = connect(Path(kubeconfig) if kubeconfig else None)
    try:
        return [
            finding
            async for finding in cluster(
                api, settings, setup.settings.train_jobs, setup.engine.datasets, setup.engine.secrets
            )
        ]
    finally:
        await api.close()

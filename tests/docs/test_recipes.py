"""Recipes of CONTRIBUTING.md, carried out in a copy of the product."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
CHANNEL = """
from dataclasses import dataclass
from pathlib import Path

from springtide.hub_extension.notifications.channel import MessageChannel
from springtide.scheduler.settings import setting


@dataclass(frozen=True, slots=True)
class Pigeon(MessageChannel):
    name = "pigeon"
    title = "By pigeon"
    about = "Slow, but sure."

    loft: str = setting("", "The directory from which pigeons fly.")

    def target(self, user, address):
        return f"the loft of {user}"

    async def send(self, message, user, address):
        (Path(self.loft) / user).write_text(message.title)
"""


class Copy:
    """A copy of the product in which a recipe is carried out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for part in ("scheduler", "hub_extension"):
            shutil.copytree(
                ROOT / part, folder / "springtide" / part, ignore=shutil.ignore_patterns("__pycache__")
            )

    def edit(self, file: str, before: str, after: str) -> None:
        path = self.folder / "springtide" / file
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, after, 1))

    def prints(self, code: str, *arguments: str) -> str:
        ran = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            env={**os.environ, "PYTHONPATH": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


SETTING = """
from springtide.hub_extension.service.service import Springtide
from springtide.scheduler.settings import SettingError

service = Springtide(accounts="shared")
service.configure_from("", ["--Springtide.nap=90"])
print(service.setup().engine.nap)
print(Springtide.class_get_trait_help(Springtide.nap))
try:
    service.configure_from('{"nap": 900}', [])
except SettingError as error:
    print(error)
"""


def test_a_setting_needs_its_declaration_alone(copy: Copy) -> None:
    declaration = '    nap: float = setting(5.0, "A nap.", unit="seconds", ge=1, le=600)\n'
    copy.edit("scheduler/engine/settings.py", "    max_files:", f"{declaration}    max_files:")
    printed = copy.prints(SETTING)
    assert printed.startswith("90.0\n--Springtide.nap=<Float>")
    assert "A nap. A number of seconds from 1 up to 600." in printed
    assert "Springtide.nap is 900; expected a number of seconds from 1 up to 600." in printed


SENT = """
import asyncio, sys
from springtide.hub_extension.notifications.channels import Channels, MessageSettings
from springtide.hub_extension.notifications.message import message_of, trial_notification
from springtide.hub_extension.service.service import Springtide
from springtide.scheduler.notifications import NotificationChoice

channels = Channels.of(MessageSettings(), Springtide(loft=sys.argv[1]).values())
print(*channels.settings.channels)
message = message_of([trial_notification("susan", "pigeon")], channels.pages_url)
asyncio.run(channels.send("pigeon", NotificationChoice("susan"), message))
"""


def test_a_channel_needs_its_module_and_an_entry(copy: Copy, tmp_path: Path) -> None:
    (copy.folder / "springtide/hub_extension/notifications/pigeon.py").write_text(CHANNEL)
    entry = "from springtide.hub_extension.notifications.pigeon import Pigeon\n"
    first = "from springtide.hub_extension.notifications.webhook"
    copy.edit("hub_extension/notifications/channels.py", first, entry + first)
    copy.edit(
        "hub_extension/notifications/channels.py",
        "(Browser, JupyterLab, Mail, Webhook)",
        "(Browser, JupyterLab, Mail, Webhook, Pigeon)",
    )
    assert copy.prints(SENT, str(tmp_path)) == "browser jupyterlab webhook pigeon\n"
    assert (tmp_path / "susan").read_text() == "This is a test message of the pool."


OPTION = """
from click.testing import CliRunner
from springtide.hub_extension.commands.submit import submit
from springtide.scheduler.wire.submission import JobOptions

print(CliRunner().invoke(submit, ["--help"]).output)
print(JobOptions(motto="onwards").motto)
"""


def test_an_option_of_a_job_needs_its_field_alone(copy: Copy) -> None:
    field = """    motto: Annotated[str, Option(kind=Kind.TEXT, help="What the job stands for.")] = ""
"""
    copy.edit("scheduler/wire/submission.py", "    workers: Annotated[", f"{field}    workers: Annotated[")
    printed = copy.prints(OPTION)
    assert "--motto TEXT" in printed
    assert "What the job stands for." in printed
    assert printed.rstrip().endswith("onwards")


VISITS_FEATURE = """
from springtide.scheduler.refusal import unknown_project
from springtide.scheduler.store.tables import Visit


def begin(transaction, visit, project, gpus):
    if project not in transaction.projects:
        raise unknown_project(project)
    transaction.visits.put(Visit(visit, project, gpus))


def end(transaction, visit):
    transaction.visits.remove(visit)


def gpus(state, project):
    return sum(visit.gpus for visit in state.visits.values() if visit.project == project)
"""
VISITS = """
import asyncio, sys
from pathlib import Path

sys.path += sys.argv[2:]
from worlds import MemoryExecutor
from springtide.scheduler.engine import open_engine
from springtide.scheduler.engine.requests import visits
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import Store

async def visit(change):
    store = Store.open(f"sqlite:///{sys.argv[1]}/pool.sqlite", Path(sys.argv[1]))
    engine = await open_engine(store, MemoryExecutor(), projects={"vision": {"quota": 2}})
    before = visits.gpus(engine.state, "vision")
    try:
        await engine.change(change)
    except Refusal as refusal:
        print(refusal.code)
    print(before, visits.gpus(engine.state, "vision"))
    await engine.stop()
    store.close()

for change in (
    lambda transaction: visits.begin(transaction, "b1", "vision", 4),
    lambda transaction: visits.begin(transaction, "b2", "nlp", 4),
    lambda transaction: visits.end(transaction, "b1"),
):
    asyncio.run(visit(change))
"""
VISIT = """
@dataclass(frozen=True, slots=True)
class Visit:
    id: str
    project: str
    gpus: int


class Tables:"""
VISIT_TABLE = """    visits = Table[str, Visit]("visits", Visit, key=("id",))
    drains = """
MIGRATION = """
import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{newest}"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "visits",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("gpus", sa.Integer, nullable=False),
    )
"""


def test_a_kind_of_keyed_state_needs_its_table_a_migration_and_its_feature(copy: Copy, tmp_path: Path) -> None:
    copy.edit("scheduler/store/tables.py", "\nclass Tables:", VISIT)
    copy.edit("scheduler/store/tables.py", "    drains = ", VISIT_TABLE)
    versions = copy.folder / "springtide/scheduler/store/migrations/versions"
    newest = max(versions.glob("v*.py")).name[1:5]
    (versions / "v9999_visits.py").write_text(MIGRATION.replace("{newest}", newest))
    state = tmp_path / "state"
    state.mkdir()
    (copy.folder / "springtide/scheduler/engine/requests/visits.py").write_text(VISITS_FEATURE)
    helpers = [str(ROOT / "tests" / folder) for folder in ("engine", "support")]
    assert copy.prints(VISITS, str(state), *helpers).splitlines() == ["0 4", "unknown_project", "4 4", "4 0"]


METRICS = """
from springtide.scheduler.gpu_reading import METRICS, Reading
from springtide.scheduler.store.schema import gpu_usage

print(METRICS["fan_speed"].gauge, "fan_speed" in gpu_usage.c, Reading(fan_speed=0.4))
"""


def test_a_reading_of_a_gpu_is_declared_once(copy: Copy) -> None:
    field = """    fan_speed: Annotated[
        Share | None, Metric("Speed of the fans (%)", MEAN, "springtide_gpu_fan_speed", scale=100)
    ] = None
"""
    copy.edit("scheduler/gpu_reading.py", "    power: Annotated[", f"{field}    power: Annotated[")
    printed = copy.prints(METRICS)
    assert printed.startswith("springtide_gpu_fan_speed True Reading(")
    assert "fan_speed=0.4" in printed


REPORT = """
from msgspec import Struct

from springtide.hub_extension.api.routes import Call, Who, route


class Birthdays(Struct, frozen=True):
    names: list[str]


@route("GET", "/birthdays", Who.ADMINS)
async def birthdays(call: Call) -> Birthdays:
    \"\"\"Return the people whose birthday it is.\"\"\"
    return Birthdays(names=[])
"""
DOCUMENT = """
import json
from springtide.hub_extension.service import openapi, site

document = openapi.document(site.ROUTES, server="/", version="1")
print(json.dumps(document["paths"]["/birthdays"]["get"]["summary"]))
"""


def test_a_report_needs_its_function_alone(copy: Copy) -> None:
    (copy.folder / "springtide/hub_extension/api/birthdays.py").write_text(REPORT)
    assert copy.prints(DOCUMENT).strip() == '"Return the people whose birthday it is"'


SCHEDULED = """
from springtide.scheduler.store.records import JobRecord, JobSpec
from springtide.scheduler.wire.submission import JobOptions

for tags in ((), ("nightly",)):
    spec = JobSpec(id="j", seq=1, user="susan", project="vision", submitted=0.0, name="n", kind="command",
                   argv=("true",), options=JobOptions(tags=tags))
    job = JobRecord(spec)
    print(job.workload.name, job.rules.learnt, job.line.name)
"""


def test_a_kind_of_work_needs_its_rules_and_what_submissions_are_of_it(copy: Copy) -> None:
    copy.edit(
        "scheduler/workload.py",
        "    TRAINING = Rules()",
        "    TRAINING = Rules()\n    NIGHTLY = Rules(runs=False)",
    )
    case = '        if "nightly" in self.options.tags:\n            return Workload.NIGHTLY\n'
    copy.edit(
        "scheduler/store/records/jobs.py",
        "        if self.trial is not None:",
        f"{case}        if self.trial is not None:",
    )
    assert copy.prints(SCHEDULED).splitlines() == ["TRAINING True GPUS", "NIGHTLY True NONE"]

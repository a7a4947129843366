"""Jobs, and what else the pool keeps of people, follow the users and groups of JupyterHub."""

from __future__ import annotations

import pytest
from pools.all_channels import WEBHOOK

from springtide.hub_extension.doctor.findings import Status
from springtide.hub_extension.doctor.needs import leavers
from springtide.scheduler import wire
from springtide.scheduler.engine import AuditQuery, JobFilter, default_projects
from springtide.scheduler.engine.requests.hub_users import Seen
from springtide.scheduler.notifications import NotificationChoice, NotificationEvent
from springtide.scheduler.refusal import Refusal

FIRST, SECOND, OTHER = "2026-01-01T10:00:00.000001Z", "2026-06-01T10:00:00.000001Z", "2026-01-02T10:00:00.000001Z"
FORMER = "susan (former, 2026-01-01 10:00:00)"
GROUPS = {"susan": ["susan"], "joe": ["joe"], "jemma": ["susan", "joe"]}
PEOPLE = {"susan": FIRST, "joe": OTHER}
WITHOUT_SUSAN, GROUPS_WITHOUT_SUSAN = {"joe": OTHER}, {**GROUPS, "susan": [], "jemma": ["joe"]}
RENAMED, RENAMED_GROUPS = {"sue": FIRST, "joe": OTHER}, {**GROUPS, "susan": ["sue"], "jemma": ["joe", "sue"]}


@pytest.fixture
def see(pool):
    async def see(users=PEOPLE, groups=GROUPS) -> None:
        await pool.engine.follow_hub(Seen(users, groups))
        await pool.idle()

    return see


@pytest.fixture
async def full(pool, see):
    """A job of joe's that runs on all GPUs, and a person of each name."""
    await see()
    job = await pool.submit("joe", gpus=8, name="busy", rotate=False)
    return await pool.state(job.id, "running")


async def end(pool, job) -> None:
    pool.executor.end(pool.key(job.id), code=0)
    await pool.state(job.id, "succeeded")
    await pool.idle()


async def of(pool, user: str) -> list[str]:
    return [job.name for job in (await pool.engine.jobs(JobFilter(user=user), None, 50)).items]


async def trail(pool, number: int) -> list[tuple[str, str, str]]:
    return [(each.who, each.what, each.subject) for each in (await pool.engine.audit(None, number)).items]


class TestLeaving:
    async def test_a_waiting_job_of_a_deleted_person_does_not_start_and_says_why(self, pool, see, full):
        waits = await pool.submit("susan", gpus=6, name="waits")
        await see(WITHOUT_SUSAN, GROUPS_WITHOUT_SUSAN)
        await end(pool, full)

        job = await pool.job(waits.id)
        assert (job.state, job.user) == ("queued", FORMER)
        assert f"{FORMER} is no longer a user of JupyterHub. Release it" in job.reason.text

    async def test_an_administrator_lets_it_run_nevertheless(self, pool, see, full):
        waits = await pool.submit("susan", gpus=6, name="waits")
        await see(WITHOUT_SUSAN, GROUPS_WITHOUT_SUSAN)
        await end(pool, full)
        await pool.engine.release(waits.id, "admin")
        await see(WITHOUT_SUSAN, GROUPS_WITHOUT_SUSAN)

        assert (await pool.state(waits.id, "running")).user == FORMER

    async def test_a_running_job_runs_on_and_does_not_start_again(self, pool, see):
        await see()
        job = await pool.submit("susan", gpus=8, name="runs")
        await pool.state(job.id, "running")
        await see(WITHOUT_SUSAN, GROUPS_WITHOUT_SUSAN)
        assert (await pool.job(job.id)).state == "running"

        pool.executor.end(pool.key(job.id), code=75)
        await pool.state(job.id, "paused")
        await pool.later(600.0)
        assert (await pool.job(job.id)).state == "paused"

    @pytest.mark.usefixtures("full")
    async def test_a_new_person_of_the_name_inherits_nothing(self, pool, see):
        done = await pool.submit("susan", gpus=0, name="done", key="once")
        await pool.state(done.id, "running")
        await end(pool, done)
        await pool.submit("susan", gpus=8, name="waits", key="twice")
        await pool.engine.change(lambda change: default_projects.choose(change, "susan", "jemma"))
        secret = NotificationChoice(
            "susan", {WEBHOOK: frozenset(NotificationEvent)}, {WEBHOOK: "https://chat.example/x"}
        )
        await pool.engine.outbox.choose(secret)
        await see({"susan": SECOND, "joe": OTHER})

        for _ in range(2):
            assert await of(pool, "susan") == []
            assert await of(pool, FORMER) == ["waits", "done"]
            assert default_projects.chosen(pool.engine.state, "susan") is None
            assert not pool.engine.outbox.choice("susan").addresses
            await pool.restart()
        assert (await pool.job(done.id)).user == FORMER
        assert (await pool.submit("susan", gpus=0, name="new", key="once")).id != done.id

    async def test_jobs_of_the_new_person_start(self, pool, see, full):
        await pool.submit("susan", gpus=6, name="hers")
        await see({"susan": SECOND, "joe": OTHER})
        job = await pool.submit("susan", gpus=6, name="his")
        await end(pool, full)
        await pool.state(job.id, "running")

    async def test_who_has_left_is_in_the_trail_once(self, pool, see):
        await see()
        for _ in range(2):
            await see(WITHOUT_SUSAN, GROUPS)
        assert await trail(pool, 1) == [("(in JupyterHub)", "person.leave", "susan")]
        assert [entry for entry in await trail(pool, 50) if entry[1] == "person.leave"] == await trail(pool, 1)

    async def test_a_person_who_comes_back_has_what_was_hers(self, pool, see, full):
        waits = await pool.submit("susan", gpus=6, name="waits")
        await see(WITHOUT_SUSAN, GROUPS_WITHOUT_SUSAN)
        await see()
        await end(pool, full)
        assert (await pool.state(waits.id, "running")).user == "susan"

    async def test_people_whom_the_hub_has_never_had_are_left_alone(self, pool, see, full):
        """Services submit under names of their own."""
        waits = await pool.submit("robot", project="susan", gpus=6, name="waits")
        await see(WITHOUT_SUSAN, GROUPS_WITHOUT_SUSAN)
        await end(pool, full)
        await pool.state(waits.id, "running")


class TestRenaming:
    async def test_a_renamed_person_keeps_her_jobs_and_choices(self, pool, see, full):
        done = await pool.submit("susan", gpus=0, name="done")
        await pool.state(done.id, "running")
        await end(pool, done)
        waits = await pool.submit("susan", gpus=6, name="waits", key="once")
        await pool.engine.change(lambda change: default_projects.choose(change, "susan", "jemma"))
        await see(RENAMED, RENAMED_GROUPS)
        await end(pool, full)

        assert (await pool.state(waits.id, "running")).user == "sue"
        for _ in range(2):
            assert await of(pool, "sue") == ["waits", "done"]
            assert await of(pool, "susan") == []
            assert default_projects.chosen(pool.engine.state, "sue") == "jemma"
            await pool.restart()
        assert ("(in JupyterHub)", "person.rename", "sue") in await trail(pool, 50)

    async def test_the_trail_by_a_name_has_what_its_person_did_under_former_ones(self, pool, see):
        async def frozen_by(name):
            page = await pool.engine.audit(None, 50, AuditQuery(who=name, what="freeze"))
            return [(entry.who, entry.subject) for entry in page.items]

        await see()
        for who, project in (("susan", "susan"), ("joe", "joe")):
            await pool.engine.freeze(project, wire.FreezeRequest(), who, members={})
        await pool.later(60)
        await see({"susan": OTHER, "joe": FIRST})
        await pool.later(60)
        await see({"sue": FIRST, "joe": OTHER})
        await pool.engine.freeze("jemma", wire.FreezeRequest(), "sue", members={})
        assert await frozen_by("sue") == [("sue", "jemma"), ("susan", "susan")]
        assert await frozen_by("joe") == [("joe", "joe")]

    @pytest.mark.usefixtures("full")
    async def test_two_people_who_change_names_keep_their_own(self, pool, see):
        await pool.submit("susan", gpus=8, name="hers")
        await see({"susan": OTHER, "joe": FIRST})
        assert await of(pool, "susan") == ["busy"]
        assert await of(pool, "joe") == ["hers"]

    @pytest.mark.usefixtures("full")
    async def test_another_person_may_take_the_name_at_once(self, pool, see):
        await pool.submit("susan", gpus=8, name="hers")
        await see({**RENAMED, "susan": SECOND}, RENAMED_GROUPS)
        assert (await of(pool, "sue"), await of(pool, "susan")) == (["hers"], [])


class TestGroups:
    async def test_a_person_in_no_project_starts_nothing_until_she_is_in_one(self, pool, see, full):
        waits = await pool.submit("susan", gpus=6, name="waits")
        await see(PEOPLE, {**GROUPS, "susan": [], "jemma": ["joe"]})
        await end(pool, full)
        job = await pool.job(waits.id)
        assert job.state == "queued"
        assert "susan is in no project any more." in job.reason.text

        await see(PEOPLE, {**GROUPS, "susan": [], "jemma": ["susan"]})
        await pool.state(waits.id, "running")

    @pytest.mark.usefixtures("full")
    async def test_what_an_administrator_holds_stays_on_hold(self, pool, see):
        waits = await pool.submit("susan", gpus=6, name="waits")
        await pool.engine.hold(waits.id, "admin", "Its data may not be used.")
        await see(PEOPLE, {})
        await see()
        assert (await pool.job(waits.id)).hold.by == "admin"

    async def test_changes_made_in_the_hub_are_in_the_trail(self, pool, see):
        await see()
        before = len(await trail(pool, 100))
        await see(PEOPLE, {**GROUPS, "jemma": ["joe"], "joe": ["joe", "susan"]})
        await pool.restart()
        await see(PEOPLE, {**GROUPS, "jemma": ["joe"], "joe": ["joe", "susan"]})

        new = (await pool.engine.audit(None, 100)).items[: len(await trail(pool, 100)) - before]
        assert {(each.who, each.what, each.subject) for each in new} == {
            ("(in JupyterHub)", "member.remove", "jemma"),
            ("(in JupyterHub)", "member.add", "joe"),
        }
        removed = next(each for each in new if each.what == "member.remove")
        assert (removed.before, removed.after) == ({"members": ["joe", "susan"]}, {"members": ["joe"]})

    async def test_what_the_pool_recorded_itself_is_not_recorded_again(self, pool, see):
        await see()
        changed = {"members": ["joe", "susan"]}, {"members": ["joe"]}
        await pool.engine.record("admin", "member.remove", "jemma", *changed)
        await see(PEOPLE, {**GROUPS, "jemma": ["joe"]})
        assert await trail(pool, 1) == [("admin", "member.remove", "jemma")]

    async def test_an_unchanged_hub_writes_nothing(self, pool, see):
        await see()
        commits = pool.engine.stats.commits
        await see()
        assert pool.engine.stats.commits == commits


class TestAnotherOwner:
    async def test_a_released_job_may_be_given_to_another_person(self, pool, see, full):
        waits = await pool.submit("susan", gpus=6, name="waits", key="once")
        await see(WITHOUT_SUSAN, GROUPS_WITHOUT_SUSAN)
        await pool.engine.release(waits.id, "admin", "joe")
        await pool.restart()
        await end(pool, full)

        job = await pool.state(waits.id, "running")
        assert (job.user, job.hold) == ("joe", None)
        assert await of(pool, FORMER) == []
        assert (await trail(pool, 1)) == [("admin", "job.release", waits.id)]
        assert (await pool.submit("joe", gpus=1, name="his", key="once")).id != waits.id

    async def test_not_while_it_runs(self, pool, see, full):
        await see({"susan": FIRST}, {**GROUPS, "joe": [], "jemma": ["susan"]})
        with pytest.raises(Refusal, match="only a job that waits gets another owner"):
            await pool.engine.release(full.id, "admin", "susan")

    @pytest.mark.usefixtures("full")
    async def test_the_trials_of_a_sweep_go_with_it(self, pool, see):
        sweep = await pool.submit("susan", gpus=8, name="search", trials=wire.Trials(number=2))
        await see(WITHOUT_SUSAN, GROUPS_WITHOUT_SUSAN)
        await pool.engine.release(sweep.id, "admin", "joe")
        assert {job.spec.user for job in pool.engine._parts.state.jobs.values()} == {"joe"}

    @pytest.mark.usefixtures("full")
    async def test_the_page_of_administrators_has_the_jobs_on_hold(self, pool, see, members):
        waits = await pool.submit("susan", gpus=6, name="waits")
        await see(WITHOUT_SUSAN, GROUPS_WITHOUT_SUSAN)
        [shown] = pool.engine.admin(members).on_hold
        assert (shown.id, shown.user, shown.state, shown.hold.by) == (waits.id, FORMER, "queued", "springtide")

    @pytest.mark.usefixtures("full")
    async def test_doctor_finds_the_jobs_of_who_has_left(self, pool, see):
        assert [each.status for each in leavers(pool.store.url, pool.clock())] == [Status.OK]
        await pool.submit("susan", gpus=6, name="waits")
        await see(WITHOUT_SUSAN, GROUPS_WITHOUT_SUSAN)

        [finding] = leavers(pool.store.url, pool.clock())
        assert finding.said.startswith(
            f"The person “{FORMER}” is no longer a user of JupyterHub and has 1 unfinished job."
        )
        assert "springtide release JOB --to USER" in finding.remedy

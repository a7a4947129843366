"""The live card and the pool at a glance, fed by a real service."""

import math
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import ipywidgets
import pytest
from patience import PATIENCE_S

from springtide.scheduler.client import Client, PoolError, Unreachable
from springtide.scheduler.wire import Event, Problem, Submission, Trials
from springtide.widgets.display import feed as feed_module
from springtide.widgets.display import listener as listener_module
from springtide.widgets.display.card import Card, PoolCard, card
from springtide.widgets.display.document import JOB_TYPE, POOL_TYPE
from springtide.widgets.display.listener import Listener, listener

SLEEP = [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(600)"]
REPORTING = """
from springtide.training import current_job
for step in range(5):
    current_job().report(step=step + 1, of=5, loss=1 / (step + 1))
print("<b>done</b>")
"""
WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(autouse=True)
def no_widgets_left():
    """Every test begins and ends without anybody looking."""
    yield
    ipywidgets.Widget.close_all()


@pytest.fixture
def card_of(pool):
    """Returns the card of a job once a page shows it."""
    return lambda job: look_at(card(pool.connection, job.info))


def look_at(widget):
    """What a page that shows the widget sends first."""
    widget._handle_custom_msg({"shown": widget.version}, [])
    return widget


def test_a_card_lives_until_its_job_has_ended(pool, workdir, card_of, until):
    job = pool.submit([sys.executable, "-c", REPORTING], name="digits", gpus=4)
    shown = card_of(job)
    until(lambda: shown.job["state"] == "succeeded" and shown.points and shown.log)
    assert shown.job["name"] == "digits"
    assert [point["values"]["loss"] for point in shown.points if point["values"]] == [
        1,
        1 / 2,
        1 / 3,
        1 / 4,
        1 / 5,
    ]
    assert "<b>done</b>" in shown.log
    assert shown.simulated
    assert shown.colour is not None
    until(lambda: not listener(pool.connection.client).active)
    assert not [thread for thread in threading.enumerate() if thread.name == "springtide" and not thread.daemon]


def test_the_card_of_a_sweep_shows_its_trials_as_they_end(pool, until):
    trials = Trials(number=3, metric="loss", parameters=[{"lr": 0.1 * number} for number in range(3)])
    submission = Submission(argv=[sys.executable, "-c", REPORTING], name="rates", trials=trials)
    sweep = pool.connection.client.submit(submission)
    shown = look_at(card(pool.connection, sweep))
    until(
        lambda: shown.job["state"] == "succeeded" and [row["value"] for row in shown.trials or ()] == [1 / 5] * 3
    )
    assert [row["parameters"]["lr"] for row in shown.trials] == [0, 0.1, 0.2]
    assert [row["state"] for row in shown.trials] == ["succeeded"] * 3
    assert (shown.points, shown.log) == ([], None)


BUSY = """
import time
from springtide.training import current_job
for step in range(40):
    current_job().report(step=step + 1, of=40, loss=1 / (step + 1))
    print("line", step, flush=True)
    time.sleep(0.05)
"""


def test_a_card_draws_what_is_pushed_and_fetches_only_what_events_do_not_tell(
    pool, workdir, card_of, until, calls
):
    shown = card_of(pool.submit([sys.executable, "-c", BUSY]))
    until(lambda: shown.job["state"] == "running" and shown.points and shown.log)
    calls.clear()
    began, version = time.monotonic(), shown.version
    until(lambda: shown.job["state"] == "succeeded" and "line 39" in shown.log)
    rounds = (time.monotonic() - began) / feed_module.FETCH_PACE_S
    assert calls.count("job") <= 1
    assert calls.count("pool") == 0
    assert calls.count("points") <= rounds + 2
    assert calls.count("log") <= rounds + 4
    assert shown.version - version > 4
    assert shown.job["progress"]["step"] == 40
    assert [point["step"] for point in shown.points] == list(range(1, 41))


def test_a_card_asks_for_everything_after_a_break(pool, workdir, card_of, until, calls):
    shown = card_of(pool.submit(SLEEP))
    until(lambda: shown.job["state"] == "running" and "here" in shown.log)
    calls.clear()
    shown._view_count = 1
    shown._view_count = 0
    assert not listener(pool.connection.client).active
    shown._view_count = 1
    until(lambda: {"job", "log", "points"} <= set(calls))


@pytest.fixture
def calls(pool, monkeypatch):
    """The names of the client's calls that were made since the last look."""
    made = []
    for name in ("job", "points", "log", "pool"):
        real = getattr(Client, name)

        def counted(client, *args: object, _real=real, _name=name, **kwargs: object):
            made.append(_name)
            return _real(client, *args, **kwargs)

        monkeypatch.setattr(Client, name, counted)
    return made


def test_a_card_stops_when_nobody_looks_and_goes_on_when_somebody_does(pool, workdir, card_of, until):
    job = pool.submit(SLEEP)
    shown = card_of(job)
    shown._view_count = 1
    until(lambda: shown.job["state"] == "running")
    shown._view_count = 0
    assert not listener(pool.connection.client).active
    job.cancel()
    job.wait(quiet=True)
    assert shown.job["state"] == "running"
    shown._view_count = 1
    until(lambda: shown.job["state"] == "cancelled")


def test_buttons_do_what_they_say_and_tell_what_went_wrong(pool, pool_of, workdir, card_of, until):
    job = pool.submit(SLEEP)
    shown = card_of(job)
    until(lambda: shown.job["state"] == "running" and "here" in shown.log)
    for nonsense in ({"action": "format"}, {"action": None}, {}, "cancel", None):
        shown._handle_custom_msg(nonsense, [])
    joes = Card(pool_of("joe").connection, job.info)
    joes._handle_custom_msg({"action": "cancel"}, [])
    until(lambda: "susan" in joes.notice)
    assert job.state == "running"
    shown._handle_custom_msg({"action": "cancel"}, [])
    until(lambda: shown.job["state"] == "cancelled")


@pytest.fixture
def sent(monkeypatch):
    """What widgets sent to the page."""
    messages = []
    monkeypatch.setattr(ipywidgets.Widget, "_send", lambda _widget, message, **_: messages.append(message))
    return messages


def test_a_page_that_missed_something_is_sent_it_all_when_it_asks(pool, workdir, card_of, until, sent):
    shown = card_of(pool.submit([sys.executable, "-c", "pass"]))
    until(lambda: not listener(pool.connection.client).active)
    assert shown.job["state"] == "succeeded"
    sent.clear()

    shown._handle_custom_msg({"shown": shown.version - 1}, [])

    states = [message["state"] for message in sent if message["method"] == "update"]
    assert states[-1]["job"]["state"] == "succeeded"
    assert states[-1]["version"] == shown.version
    assert sent[-1] == {"method": "custom", "content": {"fresh": False}}


def test_a_page_that_has_it_all_is_told_so_and_sent_nothing(pool, workdir, card_of, until, sent):
    shown = card_of(pool.submit([sys.executable, "-c", "pass"]))
    until(lambda: not listener(pool.connection.client).active)
    sent.clear()

    shown._handle_custom_msg({"shown": shown.version}, [])

    assert sent == [{"method": "custom", "content": {"fresh": True}}]


def test_a_handle_shows_its_card_with_text_and_table_beside(pool, workdir, card_of):
    name = "<img src=x onerror=alert(1)>"
    job = pool.submit(SLEEP, name=name)
    data = job._repr_mimebundle_()
    assert data[WIDGET]["model_id"] == card_of(job).model_id
    assert data[WIDGET] == job._repr_mimebundle_()[WIDGET]
    assert "<img" not in data["text/html"]
    assert "&lt;img" in data["text/html"]
    assert job.id in data["text/plain"]
    assert data[JOB_TYPE]["job"]["id"] == job.id


def test_a_card_that_no_page_draws_costs_no_stream(pool, workdir, until, calls):
    """A page that draws the other type of the same output never asks the widget."""
    job = pool.submit(SLEEP)
    job._repr_mimebundle_()
    pool._repr_mimebundle_()
    assert not listener(pool.connection.client).active


def test_what_a_notebook_keeps_of_a_job_has_neither_its_command_nor_its_source(pool, workdir):
    shown = pool.submit([sys.executable, "-c", "withheld = 7"])._repr_mimebundle_()[JOB_TYPE]
    assert "withheld" not in str(shown)
    assert shown["job"]["argv"] == []


def test_without_widgets_there_is_text_and_a_table(pool, workdir, monkeypatch):
    monkeypatch.setitem(sys.modules, "springtide.widgets.display.card", None)
    job = pool.submit(SLEEP)
    assert set(job._repr_mimebundle_()) == {JOB_TYPE, "text/plain", "text/html"}
    assert set(pool._repr_mimebundle_()) == {POOL_TYPE, "text/plain", "text/html"}


def test_the_pool_at_a_glance_follows(pool, workdir, until):
    data = pool._repr_mimebundle_()
    assert "simulated" in data["text/plain"]
    assert "vision" in data["text/html"]
    shown = look_at(PoolCard(pool.connection))
    job = pool.submit(SLEEP, gpus=4)
    until(lambda: shown.pool["train_held"] == 4)
    vision = next(project for project in shown.pool["projects"] if project["name"] == "vision")
    assert (vision["quota"], vision["held"], vision["borrowed"]) == (2, 4, 2)
    assert [project["name"] for project in shown.me["projects"]] == ["vision"]
    job.cancel()
    until(lambda: shown.pool["train_held"] == 0)


class Looking:
    """Looks at one job's news: returns or raises the given answers."""

    due = math.inf

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.error: Any = None

    def hear(self, _event):
        return True

    def forget(self):
        pass

    def refresh(self):
        answer = self.answers.pop(0) if self.answers else False
        if isinstance(answer, Exception):
            raise answer
        return answer

    def failed(self, error):
        self.error = error


def refusal(status):
    return PoolError(Problem(status=status, code="x", message="no"))


def test_a_view_outlives_what_passes_and_is_told_what_does_not(pool, until, monkeypatch):
    monkeypatch.setattr(listener_module, "AWAY_S", 0.0)
    served = listener(pool.connection.client)
    lasting, broken = Looking(refusal(503), Unreachable("away"), refusal(429)), Looking(refusal(404), True)
    served.add(lasting)
    served.add(broken)
    until(lambda: not served.active)
    assert lasting.error is None
    assert not lasting.answers
    assert broken.error.status == 404
    assert broken.answers == [True]


def test_who_comes_when_the_last_one_leaves_is_shown_the_pool_as_it_is(pool, until, monkeypatch):
    """The first look does not wait for the stream, which says nothing here."""
    client = pool.connection.client
    monkeypatch.setattr(client, "events", lambda stop: iter(stop.wait, True))
    served: Any = Listener(client)
    for _ in range(20):
        leaves, comes = Looking(True), Looking(True)
        served.add(leaves)
        until(lambda leaves=leaves: not leaves.answers and served._changed._waiters)
        with served._changed:
            served.remove(leaves)
            served.add(comes)
        until(lambda comes=comes: not comes.answers)
        served.remove(comes)


def test_a_widget_collected_while_a_listener_is_looked_up_keeps_nobody_waiting(monkeypatch):
    """A collection of garbage runs on any thread at any point, and closes the widgets that it finds."""
    looked_up: list[Any] = []

    class Collecting(Listener):
        def __init__(self, client: Any) -> None:
            if not looked_up:
                looked_up.append(client)
                looked_up.append(listener(client))
            super().__init__(client)

    monkeypatch.setattr(listener_module, "Listener", Collecting)
    client: Any = object()
    monkeypatch.setattr(listener_module, "_listeners", {})
    thread = threading.Thread(target=lambda: looked_up.append(listener(client)), daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert looked_up[1] is looked_up[2]


def test_a_viewer_that_goes_while_another_hears_an_event_ends_nothing(until):
    event = Event(kind="pool", data={})
    gone = [Looking(*[True] * 1000) for _ in range(20)]

    class Leaving(Looking):
        due = 0.0

        def hear(self, event):
            while gone:
                served.remove(gone.pop())
            return super().hear(event)

    everybody_is_there = threading.Event()

    def events(*, stop):
        assert not stop.is_set()
        everybody_is_there.wait(PATIENCE_S)
        yield from (event, event)

    served = Listener(cast("Client", SimpleNamespace(events=events)))
    lasting = Leaving(True, True, False)
    for viewer in (*gone, lasting):
        served.add(viewer)
    everybody_is_there.set()
    until(lambda: not served.active)
    assert lasting.answers == []
    assert lasting.error is None

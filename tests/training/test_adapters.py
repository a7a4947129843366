"""The adapters against small stand-ins of the frameworks, which call them as the frameworks do."""

from __future__ import annotations

import pickle
import sys
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from springtide.training import AGAIN
from springtide.training.adapters import huggingface, keras, lightning
from springtide.training.adapters.epochs import EpochPauses
from springtide.training.adapters.pytorch import Resumable
from springtide.training.job import Job


@pytest.fixture
def job(place) -> Job:
    return Job(place.environment())


def install(monkeypatch: pytest.MonkeyPatch, name: str, **contents: Any) -> None:
    module = ModuleType(name)
    module.__dict__.update(contents)
    monkeypatch.setitem(sys.modules, name, module)


def ask(place) -> None:
    place.pause_file.touch()


# ---------- plain PyTorch


class Part:
    """Has state, like a model or an optimizer."""

    def __init__(self, value: float) -> None:
        self.value = value

    def state_dict(self) -> dict[str, float]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.value = state["value"]


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    random = SimpleNamespace(state=1)

    def load(path: str, map_location: str, weights_only: bool) -> Any:
        assert (map_location, weights_only) == ("cpu", False)
        return pickle.loads(Path(path).read_bytes())

    install(
        monkeypatch,
        "torch",
        save=lambda value, path: Path(path).write_bytes(pickle.dumps(value)),
        load=load,
        get_rng_state=lambda: random.state,
        set_rng_state=lambda state: setattr(random, "state", state),
        cuda=SimpleNamespace(is_available=lambda: False),
    )
    return random


def test_a_loop_in_plain_pytorch_goes_on_where_it_was(place, job: Job, torch: SimpleNamespace) -> None:
    model, optimizer = Part(0), Part(0)
    parts = Resumable(job, every=10, model=model, optimizer=optimizer)
    assert parts.restore() == 0
    model.value, optimizer.value, torch.state = 3, 4, 99
    parts.done(1, of=50, loss=0.5)
    assert job.restore() is None
    ask(place)
    job._looked = 0
    with pytest.raises(SystemExit) as exit_:
        parts.done(2, of=50, loss=0.4)
    assert exit_.value.code == AGAIN
    model.value, optimizer.value, torch.state = 0, 0, 0
    place.pause_file.unlink()
    again = Resumable(Job(place.environment(attempt=2)), model=model, optimizer=optimizer)
    assert again.restore() == 2
    assert (model.value, optimizer.value, torch.state) == (3, 4, 99)
    steps = [(line["step"], line["saved"]) for line in place.reports() if "milestone" not in line]
    assert steps == [(1, False), (2, False), (2, True)]


# ---------- Lightning


@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
def test_lightning_pauses_between_batches_and_resumes(place, job: Job, monkeypatch, package: str) -> None:
    for name in ("lightning", "lightning.pytorch", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, name, None)
    if package.startswith("lightning"):
        install(monkeypatch, "lightning")
    install(monkeypatch, package, Callback=type("Callback", (), {}))
    trainer = SimpleNamespace(
        global_step=30,
        current_epoch=2,
        estimated_stepping_batches=50,
        callback_metrics={"loss": 0.25, "name": "x"},
        save_checkpoint=lambda path, **_: Path(path).write_text("weights"),
        fit_loop=SimpleNamespace(_should_accumulate=lambda: False),
    )
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(lightning, "EpochPauses", partial(EpochPauses, clock=lambda: clock.now))
    assert lightning.latest(job) is None
    callback = lightning.callback(job)
    callback.on_train_epoch_start(trainer, None)
    callback.on_train_batch_end(trainer, None, {}, {}, 0)
    clock.now += job.grace
    callback.on_train_epoch_end(trainer, None)
    assert job.restore().step == 30
    ask(place)
    job._looked = 0
    trainer.global_step = 31
    with pytest.raises(SystemExit) as exit_:
        callback.on_train_batch_end(trainer, None, {}, {}, 1)
    assert exit_.value.code == AGAIN
    assert Path(lightning.latest(job)).read_text() == "weights"
    assert job.restore().step == 31
    first = place.reports()[0]
    assert (first["step"], first["of"], first["values"]) == (30, 50, {"loss": 0.25})


# ---------- Hugging Face


class Trainer:
    """Trains 10 steps and treats its callback as `transformers.Trainer` does."""

    def __init__(self, callback: Any, output: Path, each_step: Any = None) -> None:
        self.callback = callback
        self.args = SimpleNamespace(output_dir=str(output))
        self.each_step = each_step

    def train(self, resume_from_checkpoint: str | None = None) -> int:
        done = int(Path(resume_from_checkpoint, "trainer_state.json").read_text()) if resume_from_checkpoint else 0
        state = SimpleNamespace(global_step=done, max_steps=10)
        control = SimpleNamespace(should_save=False, should_training_stop=False)
        while state.global_step < state.max_steps and not control.should_training_stop:
            state.global_step += 1
            if self.each_step:
                self.each_step(state.global_step)
            self.callback.on_step_end(self.args, state, control, model=None)
            self.callback.on_log(self.args, state, control, model=None, logs={"loss": 1.0, "epoch": 0.5})
            if control.should_save:
                place = Path(self.args.output_dir, f"checkpoint-{state.global_step}")
                place.mkdir(parents=True)
                (place / "trainer_state.json").write_text(str(state.global_step))
                self.callback.on_save(self.args, state, control, model=None)
                control.should_save = False
        self.callback.on_train_end(self.args, state, control, model=None)
        return state.global_step


def test_hugging_face_pauses_between_steps_and_resumes(place, job: Job, monkeypatch, tmp_path: Path) -> None:
    install(monkeypatch, "transformers", TrainerCallback=type("TrainerCallback", (), {}))

    def each_step(step: int) -> None:
        job._looked = 0
        if step == 4:
            ask(place)

    with pytest.raises(SystemExit) as exit_:
        Trainer(huggingface.callback(job), tmp_path / "runs", each_step).train(huggingface.latest(job))
    assert exit_.value.code == AGAIN
    assert job.restore().step == 4
    place.pause_file.unlink()
    again = Job(place.environment(attempt=2))
    assert Trainer(huggingface.callback(again), tmp_path / "runs").train(huggingface.latest(again)) == 10
    assert place.reports()[0]["values"] == {"loss": 1.0, "epoch": 0.5}
    assert place.reports()[-1]["step"] == 10


# ---------- Keras


class Model:
    """Fits like a Keras model: epochs of two batches."""

    weights: tuple[Any, ...] = ()
    variables: tuple[Any, ...] = ()
    metrics_variables: tuple[Any, ...] = ()
    steps_per_execution = 1

    def __init__(self) -> None:
        self.weight = 0
        self.optimizer: Any = SimpleNamespace(built=False, build=lambda _: setattr(self.optimizer, "built", True))
        self.trainable_variables: list[Any] = []
        self._initial_epoch = 0
        self.train_function = self.train

    def train(self, _data: list[int]) -> None:
        self.weight += 1

    def save_weights(self, path: str) -> None:
        Path(path).write_text(str(self.weight))

    def load_weights(self, path: str) -> None:
        assert self.optimizer.built
        self.weight = int(Path(path).read_text())

    def fit(self, callback: Any, epochs: int, each_batch: Any = None, initial_epoch: int = 0) -> None:
        callback.model, callback.params = self, {"epochs": epochs}
        callback.on_train_begin(logs={})
        for epoch in range(self._initial_epoch or initial_epoch, epochs):
            callback.on_epoch_begin(epoch, logs={})
            for batch in range(2):
                self.train_function([batch])
                if each_batch:
                    each_batch(epoch, batch)
                callback.on_train_batch_end(batch, logs={})
            callback.on_epoch_end(epoch, logs={"loss": 0.5})


@pytest.mark.parametrize(
    ("seconds", "saved"),
    [(0.0, (2, 6)), (20.0, (1, 6))],
    ids=["at the end of a short epoch", "between batches of a long one"],
)
def test_keras_pauses_and_resumes(place, job: Job, monkeypatch, seconds: float, saved) -> None:
    install(monkeypatch, "keras", callbacks=SimpleNamespace(Callback=type("Callback", (), {})))
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(keras, "EpochPauses", partial(EpochPauses, clock=lambda: clock.now))

    def each_batch(epoch: int, batch: int) -> None:
        job._looked = 0
        clock.now += seconds
        if (epoch, batch) == (1, 0):
            ask(place)

    model = Model()
    with pytest.raises(SystemExit) as exit_:
        model.fit(keras.callback(job), 3, each_batch)
    assert exit_.value.code == AGAIN
    place.pause_file.unlink()
    model = Model()
    model.fit(keras.callback(Job(place.environment(attempt=2))), 3)
    assert (model._initial_epoch, model.weight) == saved
    reported = [(line["attempt"], line["step"], line["of"]) for line in place.reports() if not line["saved"]]
    assert reported[-1] == (2, 3, 3)
    assert (1, 1, 3) in reported


def test_a_second_fit_of_keras_trains_and_resumes(place, job: Job, monkeypatch) -> None:
    install(monkeypatch, "keras", callbacks=SimpleNamespace(Callback=type("Callback", (), {})))

    def each_batch(epoch: int, batch: int) -> None:
        job._looked = 0
        if (epoch, batch) == (0, 1):
            ask(place)

    model = Model()
    model.fit(keras.callback(job), 3)
    assert model.weight == 6
    with pytest.raises(SystemExit) as exit_:
        model.fit(keras.callback(job), 2, each_batch)
    assert exit_.value.code == AGAIN
    place.pause_file.unlink()
    paused = model.weight
    model, again = Model(), Job(place.environment(attempt=2))
    model.fit(keras.callback(again), 3)
    assert model.weight == 0  # complete before the pause
    model.fit(keras.callback(again), 2)
    assert model.weight == 10
    assert paused == 8
    reported = [(line["attempt"], line["step"], line["of"]) for line in place.reports() if not line["saved"]]
    steps = [each for each in reported if each[1] is not None]
    assert steps == [(1, 1, 3), (1, 2, 3), (1, 3, 3), (2, 4, 5), (2, 5, 5)]


def test_a_fit_of_keras_that_begins_at_a_later_epoch_counts_on(place, job: Job, monkeypatch) -> None:
    install(monkeypatch, "keras", callbacks=SimpleNamespace(Callback=type("Callback", (), {})))
    model = Model()
    model.fit(keras.callback(job), 2)
    model.fit(keras.callback(job), 4, initial_epoch=2)
    steps = [(line["step"], line["of"]) for line in place.reports() if not line["saved"]]
    assert (model.weight, steps) == (8, [(1, 2), (2, 2), (3, 4), (4, 4)])

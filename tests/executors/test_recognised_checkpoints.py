"""Checkpoints that frameworks write by themselves are recognised by their names, and only when complete."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pickle
import threading
import zipfile
from pathlib import Path

import pytest
from benches.local_bench import LocalBench, account_bench
from patience import PATIENCE_S

from springtide.scheduler import model
from springtide.scheduler.executors.base import Reported
from springtide.scheduler.executors.files.layout import Layout
from springtide.scheduler.executors.supervisor.checkpoints import (
    CONVENTIONS,
    OLD_PYTORCH,
    Checkpoint,
    File,
    ends_well,
    listed,
    newest,
    recognised,
)
from springtide.scheduler.resuming import names_checkpoint, problem, takes_any

START = 1000.0


def files(*paths: str, at: float = START + 100) -> list[File]:
    return [File(path, 10, at) for path in paths]


def found(*paths: str) -> list[tuple[str, str]]:
    return [(each.path, each.by) for each in recognised(files(*paths), START)]


@pytest.mark.parametrize(
    ("paths", "checkpoint", "by"),
    [
        (["lightning_logs/version_0/checkpoints/epoch=4-step=50.ckpt"], None, "Lightning"),
        (["checkpoints/last.ckpt"], None, "Lightning"),
        (
            ["out/checkpoint-500/model.safetensors", "out/checkpoint-500/trainer_state.json"],
            "out/checkpoint-500",
            "Transformers",
        ),
        (
            ["out/checkpoint-500/adapter_model.safetensors", "out/checkpoint-500/trainer_state.json"],
            "out/checkpoint-500",
            "Transformers",
        ),
        (
            ["ckpts/checkpoint_3/model.safetensors", "ckpts/checkpoint_3/random_states_0.pkl"],
            "ckpts/checkpoint_3",
            "Accelerate",
        ),
        (["step100/.metadata", "step100/__0_0.distcp"], "step100", "PyTorch (distributed)"),
        (["model.keras"], None, "Keras"),
        (["weights/04.weights.h5"], None, "Keras"),
        (["backup/latest.weights.h5", "backup/training_metadata.json"], "backup", "Keras"),
        (["orbax/12/_CHECKPOINT_METADATA", "orbax/12/default/manifest.ocdbt"], "orbax/12", "Orbax"),
        (["models/model_20.ubj"], None, "XGBoost"),
        (["xgboost_20.json"], None, "XGBoost"),
        (["model.txt.snapshot_iter_100"], None, "LightGBM"),
        (
            ["logs/ppo/rl_model_2000_steps.zip", "data.zip"],
            "logs/ppo/rl_model_2000_steps.zip",
            "Stable-Baselines3",
        ),
        (["catboost_info/experiment.cbsnapshot"], None, "CatBoost"),
        (["checkpoint.pth.tar"], None, "PyTorch"),
        (["snapshot.pt"], None, "PyTorch"),
        (["runs/detect/weights/last.pt"], None, "PyTorch"),
        (["model_checkpoint_3.pth"], None, "PyTorch"),
        (["checkpoint.pkl"], None, "the program"),
    ],
)
def test_checkpoints_are_known_by_the_names_that_frameworks_give_them(
    paths: list[str], checkpoint: str | None, by: str
) -> None:
    assert found(*paths) == [(checkpoint or paths[0], by)]


@pytest.mark.parametrize(
    "paths",
    [
        ["model.pt"],
        ["best.pth"],
        ["blast.pt"],
        ["config.json", "results.txt", "data.h5"],
        ["out/checkpoint-500/model.safetensors"],
        ["out/checkpoint-500/trainer_state.json"],
        ["out/tmp-checkpoint-500/model.safetensors", "out/tmp-checkpoint-500/trainer_state.json"],
        ["step100/__0_0.distcp"],
        ["step100/__0_0.distcp", "step100/.metadata.tmp"],
        ["orbax/12.orbax-checkpoint-tmp-17/_CHECKPOINT_METADATA"],
        ["last.ckpt.tmp"],
        ["last.ckpt.part"],
        [".last.ckpt"],
        ["7/manifest.json", "7/checkpoint.pt"],
    ],
)
def test_other_files_and_incomplete_checkpoints_are_none(paths: list[str]) -> None:
    assert found(*paths) == []


def test_a_checkpoint_before_the_start_of_the_job_is_not_its_own() -> None:
    assert recognised(files("last.ckpt", at=START - 1), START) == []


def test_an_empty_file_is_no_checkpoint() -> None:
    assert recognised([File("last.ckpt", 0, START + 1)], START) == []


def test_the_newest_comes_first_and_a_folder_has_the_size_of_all_its_files() -> None:
    several = [
        *files("a.ckpt", at=START + 1),
        *files("out/checkpoint-9/trainer_state.json", "out/checkpoint-9/model.safetensors", at=START + 3),
        *files("out/checkpoint-9/optimizer.pt", at=START + 2),
        *files("b.ckpt", at=START + 2),
    ]
    first, *rest = recognised(several, START)
    assert first == Checkpoint("out/checkpoint-9", 30, START + 3, "Transformers")
    assert [each.path for each in rest] == ["b.ckpt", "a.ckpt"]


def test_a_path_that_the_user_named_counts_whatever_its_name() -> None:
    several = files("state/weights.bin", "state/optimizer.bin", "other.bin")
    assert [each.path for each in recognised(several, START, ["state"])] == ["state"]
    assert [each.path for each in recognised(several, START, ["other.bin"])] == ["other.bin"]


def test_an_argument_without_a_path_makes_every_model_a_checkpoint() -> None:
    several = files("out/model.pt", "out/log.txt", "train.py")
    assert recognised(several, START) == []
    assert [each.path for each in recognised(several, START, any_data=True)] == ["out/model.pt"]


@pytest.mark.parametrize(
    ("resume", "anything", "named"),
    [
        ("--resume", True, False),
        ("--resume --seed=1", False, False),
        ("--ckpt_path last", False, False),
        ("--resume out/model.pt", False, True),
        ("--resume {checkpoint}", False, True),
        (None, False, False),
    ],
)
def test_only_arguments_that_name_a_checkpoint_pass_it_on(resume: str | None, anything: bool, named: bool) -> None:
    found = model.Checkpoint("out/model.pt", 1, START, "PyTorch")
    assert takes_any(resume) is anything
    assert names_checkpoint(resume, found) is named


def test_a_placeholder_with_a_slip_of_the_pen_is_refused() -> None:
    for slip in ("{chkpoint}", "{ckpt}", "{checkpoint"):
        wrong = problem(f"--resume {slip} --more", "command", ["python", "train.py"])
        assert wrong == (f"“{slip}” is no placeholder.", "Did you mean {checkpoint}?")
    for fine in ("--resume {checkpoint}", "--opts '{\"lr\": 1}' last.pt", "--name {run}"):
        assert problem(fine, "command", ["python", "train.py"]) is None


def zipped() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr("archive/data.pkl", b"x" * 1000)
    return content.getvalue()


def test_a_file_whose_end_is_missing_is_incomplete() -> None:
    whole = zipped()
    assert ends_well(whole[:64], whole, len(whole))
    assert not ends_well(whole[:64], whole[:-200], len(whole) - 200)
    hdf = b"\x89HDF\r\n\x1a\n\x00" + bytes(31) + (5000).to_bytes(8, "little") + bytes(16)
    assert ends_well(hdf, b"", 5000)
    assert not ends_well(hdf, b"", 4000)


def test_pickles_and_safetensors_that_are_cut_short_are_incomplete() -> None:
    for protocol in (2, 4, 5):
        whole = pickle.dumps({"weights": b"x" * 100_000}, protocol)
        assert ends_well(whole[:64], whole, len(whole))
        assert ends_well(whole[:64], whole[:-500], len(whole) - 500) is False
    old = OLD_PYTORCH + pickle.dumps(1001, 2) + b"data"
    assert ends_well(old[:64], old, len(old)) is None
    text = json.dumps({"__metadata__": {"a": "b"}, "w": {"dtype": "F32", "shape": [9], "data_offsets": [0, 36]}})
    head = len(text).to_bytes(8, "little") + text.encode()
    assert ends_well(head, b"", len(head) + 36)
    assert ends_well(head, b"", len(head) + 35) is False
    assert ends_well(head[:-9], b"", len(head) - 9) is False
    assert ends_well(b"text", b"text", 4) is None


@pytest.mark.parametrize(("killed", "taken"), [(False, "checkpoint_2.h5"), (True, "checkpoint_1.h5")])
def test_what_a_killed_program_wrote_last_counts_only_if_its_format_says_that_it_is_complete(
    tmp_path: Path, killed: bool, taken: str
) -> None:
    (tmp_path / "checkpoint_1.h5").write_bytes(b"of a format of its own")
    os.utime(tmp_path / "checkpoint_1.h5", (START + 1, START + 1))
    (tmp_path / "checkpoint_2.h5").write_bytes(b"of a format of its o")
    found = newest([str(tmp_path)], START, [], ended=True, killed=killed)
    assert found is not None
    assert found.path == taken
    (tmp_path / "checkpoint_1.h5").unlink()
    only = newest([str(tmp_path)], START, [], ended=True, killed=killed)
    assert only is not None, "a program that replaces its only one all the time loses nothing"
    (tmp_path / "checkpoint_3.npz").write_bytes(zipped())
    last = newest([str(tmp_path)], START, [], ended=True, killed=killed)
    assert last is not None
    assert last.path == "checkpoint_3.npz"


SAVES_SLOWLY = """
import pickle, signal, time
with open("checkpoint_1.pkl", "wb") as file:
    pickle.dump({"step": 1}, file)
def save(*_):
    with open("checkpoint_2.pkl", "wb") as file:
        while True:
            file.write(b"part")
            file.flush()
            time.sleep(0.02)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
time.sleep(600)
"""


async def test_a_checkpoint_that_the_end_of_the_grace_period_cuts_short_is_neither_listed_nor_resumed_from(
    tmp_path: Path,
) -> None:
    bench = LocalBench(tmp_path / "state")
    await bench.open()
    try:
        spec = bench.code(SAVES_SLOWLY, grace=4)
        await bench.executor.launch(spec)
        await bench.running(spec.key)
        await bench.executor.pause(spec.key)
        place = Layout(bench.state).job("job").work / "checkpoint_2.pkl"
        async with asyncio.timeout(PATIENCE_S):
            while not place.exists():
                await asyncio.sleep(0.05)
        assert [each.name for each in await bench.executor.list_checkpoints(spec)] == ["checkpoint_1.pkl"]
        ended = await bench.gone(spec.key)
        assert ended.exit is not None
        assert ended.exit.killed
        reports = await bench.executor.read_reports("job", 0, 100)
        assert [report.found.path for report in reports if report.found is not None][-1] == "checkpoint_1.pkl"
    finally:
        await bench.close()


def test_the_newest_whole_checkpoint_is_taken_and_one_being_written_is_not(tmp_path: Path) -> None:
    work, saved = tmp_path / "work", tmp_path / "checkpoints"
    work.mkdir()
    saved.mkdir()
    (saved / "epoch=1.ckpt").write_bytes(zipped())
    os.utime(saved / "epoch=1.ckpt", (START + 1, START + 1))
    (work / "last.ckpt").write_bytes(zipped()[:-200])
    roots = [str(work), str(saved)]
    taken = newest(roots, START, [], ended=True)
    assert taken is not None
    assert taken.path == str(saved / "epoch=1.ckpt")
    (work / "last.ckpt").write_bytes(zipped())
    running, ended = newest(roots, START, [], ended=False), newest(roots, START, [], ended=True)
    assert running is not None
    assert running.path == str(saved / "epoch=1.ckpt")
    assert ended is not None
    assert ended.path == "last.ckpt"


@pytest.mark.parametrize(("replaced", "known"), [(True, True), (False, False)])
def test_a_checkpoint_that_is_replaced_all_the_time_is_known_and_one_that_is_rewritten_is_not(
    tmp_path: Path, replaced: bool, known: bool
) -> None:
    saved, stop = tmp_path / "last.ckpt", threading.Event()
    saved.write_bytes(zipped())

    def train() -> None:
        while not stop.wait(0.02):
            if replaced:
                (tmp_path / "last.ckpt.tmp").write_bytes(zipped())
                (tmp_path / "last.ckpt.tmp").replace(saved)
            else:
                with saved.open("r+b") as file:
                    file.write(zipped())

    training = threading.Thread(target=train)
    training.start()
    try:
        found = newest([str(tmp_path)], START, [], ended=False)
    finally:
        stop.set()
        training.join()
    assert (found is not None) is known


def test_linked_files_and_folders_count_and_no_links_below_them(tmp_path: Path) -> None:
    work, project, elsewhere = tmp_path / "work", tmp_path / "project", tmp_path / "elsewhere"
    for folder in (work, project / "checkpoints", elsewhere):
        folder.mkdir(parents=True)
    (elsewhere / "last.ckpt").write_bytes(b"x")
    (project / "checkpoints" / "epoch=1.ckpt").write_bytes(b"x")
    (project / "checkpoints" / "again").symlink_to(project / "checkpoints")
    (project / "checkpoints" / "file.ckpt").symlink_to(elsewhere / "last.ckpt")
    (work / "checkpoints").symlink_to(project / "checkpoints")
    (work / "last.ckpt").symlink_to(elsewhere / "last.ckpt")
    (work / "nowhere").symlink_to(tmp_path / "none")
    assert sorted(each.path for each in listed(str(work))) == ["checkpoints/epoch=1.ckpt", "last.ckpt"]
    found = newest([str(work)], 0.0, [], ended=True)
    assert found is not None
    assert listed(str(work / "missing")) == []


def test_the_manual_names_every_convention() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "training.md").read_text()
    table = manual.partition("## Checkpoints that your framework makes")[2].partition("\n## ")[0]
    assert [each.by for each in CONVENTIONS if each.by not in table] == []


WRITES = """
import pickle, time
with open("last.ckpt", "wb") as file:
    pickle.dump("weights", file)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.root
async def test_the_search_has_the_rights_of_the_jobs_account() -> None:
    async with account_bench() as bench:
        spec = bench.code(WRITES)
        await bench.executor.launch(spec)
        await bench.running(spec.key)
        places = Layout(bench.state).job(spec.key.job)
        hidden = places.work / "hidden"
        hidden.mkdir(mode=0o700)
        (hidden / "newer.ckpt").write_bytes(b"of root")
        await bench.executor.pause(spec.key)
        await bench.gone(spec.key)
        found = [each.found.path for each in bench.of_kind(Reported) if each.found is not None]
        assert found == ["last.ckpt"]
        assert places.reports.stat().st_uid == places.work.stat().st_uid != 0

"""The files that a job left, as its output directory is read: whatever the job has made of it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from springtide.scheduler.executors.base import ExecutorError
from springtide.scheduler.executors.files import outputs
from springtide.scheduler.executors.files.layout import JobPlaces, Layout
from springtide.scheduler.executors.files.plain import relative_parts
from springtide.scheduler.file_names import real_name


@pytest.fixture
def places(tmp_path: Path) -> JobPlaces:
    places = Layout(tmp_path).job("job1")
    places.output.mkdir(parents=True)
    return places


def names(places: JobPlaces, most: int = 100) -> list[str]:
    return [file.name for file in outputs.list_outputs(places, most)]


def test_files_are_listed_by_folder_and_name_with_their_sizes(places: JobPlaces) -> None:
    (places.output / "b").write_bytes(b"xyz")
    (places.output / "a").write_bytes(b"")
    (places.output / "models").mkdir()
    (places.output / "models" / "best.pt").write_bytes(b"12345")
    files = outputs.list_outputs(places, 100)
    assert [(file.name, file.size) for file in files] == [("a", 0), ("b", 3), ("models/best.pt", 5)]
    assert names(places, most=2) == ["a", "b"]


def test_files_whose_names_are_no_text_are_listed_and_opened_by_a_text_of_their_own(places: JobPlaces) -> None:
    real = [b"caf\xe9", b"caf\\xe9", b"caf\xc3\xa9", b"a\\b\xff.txt", b"\xff" * 200]
    for content, name in enumerate(real):
        Path(os.fsdecode(os.fsencode(places.output) + b"/" + name)).write_bytes(bytes([content]))
    shown = names(places)
    assert set(shown) == {r"caf\xe9", r"caf\x5cxe9", "café", r"a\b\xff.txt", r"\xff" * 200}
    for text in shown:
        opened = outputs.open_output(places, relative_parts(real_name(text)), 100)
        assert opened is not None
        with opened:
            assert os.fsencode(real_name(text)) == real[opened.read()[0]]


def test_links_and_pipes_are_left_out(places: JobPlaces, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of somebody else")
    (places.output / "link").symlink_to(tmp_path / "secret")
    (places.output / "folder").symlink_to(tmp_path)
    os.mkfifo(places.output / "pipe")
    (places.output / "plain").write_text("x")
    assert names(places) == ["plain"]


def test_folders_that_go_ever_deeper_end_somewhere(places: JobPlaces) -> None:
    deep = places.output.joinpath(*["d"] * 60)
    deep.mkdir(parents=True)
    (deep / "far").write_text("x")
    (places.output / "d" / "near").write_text("x")
    assert names(places) == ["d/near"]


def test_a_job_without_an_output_directory_left_nothing(tmp_path: Path) -> None:
    assert outputs.list_outputs(Layout(tmp_path).job("none"), 10) == ()


def test_an_output_directory_that_became_a_link_is_not_read(places: JobPlaces, tmp_path: Path) -> None:
    places.output.rmdir()
    places.output.symlink_to(tmp_path)
    with pytest.raises(ExecutorError, match="cannot be read"):
        outputs.list_outputs(places, 10)


def test_files_that_the_job_writes_and_renames_meanwhile_do_not_spoil_the_list(places: JobPlaces) -> None:
    for number in range(200):
        (places.output / f"kept-{number:03}").write_text("x")
    ended = threading.Event()

    def rewrite() -> None:
        while not ended.is_set():
            for number in range(0, 200, 7):
                beside = places.output / f"new-{number:03}"
                beside.write_text("xy")
                beside.rename(places.output / f"kept-{number:03}")

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        lists = [set(names(places, 1_000)) for _ in range(100)]
    finally:
        ended.set()
        writer.join()
    assert all({f"kept-{number:03}" for number in range(200) if number % 7} <= found for found in lists)

"""Syncs of folders under capture."""

from pathlib import Path

from .preload_job import capture, compile_program


def test_each_sync_of_a_folder_is_recorded_with_its_name(tmp_path: Path) -> None:
    """By libc, system call, ring and aio; of a folder that has another name by now, by that."""
    program = compile_program(tmp_path, "folders.c", "-O2", "-luring", "-pthread")
    (tmp_path / "files").mkdir()
    captured = capture([program, tmp_path / "files"], tmp_path / "logs")
    assert captured.done.returncode == 0, captured.done.stderr
    syncs = captured.requests("sync")
    seen = [f"{one.flags} {one.api} {one.result}" for one in syncs]
    assert seen == captured.done.stdout.decode().splitlines()
    top = str(tmp_path / "files")
    named = [one.text.decode().removeprefix(top) for one in syncs]
    assert named == [*["/inner"] * 2, "", *["/inner"] * 6, *["/moved"] * 2]
    assert {one.file for one in syncs} == {0}
    assert all(one.end_ns > one.start_ns for one in syncs)
    outside = captured.log.header.outside
    assert (outside.dropped_records, outside.unknown_descriptors) == (0, 0)

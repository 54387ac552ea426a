"""Folders of checkpoints of which files are cut, gone or cannot be read."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.formats import checkpoint
from iotrace.traces.formats.damage import examine, examine_files

from .saved_states import STATE, readable, save_state, state_of


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same state, as each engine keeps it."""
    folder = tmp_path_factory.mktemp("saved")
    save_state(folder)
    return folder


def test_a_shard_is_examined_and_read_with_its_folder(saved: Path) -> None:
    """It is archives one behind another: the last one alone would pass for all."""
    (shard, *_) = sorted((saved / "dcp").glob("*.distcp"))
    assert examine(shard) == examine(saved / "dcp")
    with pytest.raises(TraceFormatError, match=f"give the folder {saved / 'dcp'}"):
        checkpoint.read(shard)


@pytest.mark.parametrize("name", ["dcp", "snapshot"])
def test_folders_lose_what_their_files_lack(saved: Path, tmp_path: Path, name: str) -> None:
    """A file that is cut, one that is gone, and no index."""
    folder = tmp_path / name
    shutil.copytree(saved / name, folder)
    files = [Path(part.path) for part in state_of(folder).parts]
    last = max(state_of(folder).parts, key=lambda part: (part.path, part.offset))
    os.truncate(last.path, last.offset + 10)
    cut = state_of(folder)
    assert [part.name for part in cut.lost] == [last.name]
    assert "10 of" in cut.lost[0].lost
    for file in set(files):
        file.unlink()
    assert {part.lost.rpartition(" ")[2] for part in state_of(folder).lost} == {"missing"}
    shutil.rmtree(folder)
    shutil.copytree(saved / name, folder)
    index = folder / (".metadata" if name == "dcp" else ".snapshot_metadata")
    index.write_bytes(index.read_bytes()[:-40])
    assert index.name in state_of(folder).index
    index.unlink()
    without = examine(folder)
    assert (without.index if without else None) == (
        ".metadata is missing: it is written last, so the save did not end"
        if name == "dcp"
        else None
    )


def test_a_folder_of_files_is_examined_file_by_file(saved: Path, tmp_path: Path) -> None:
    """Whole ones, one that is cut, one without a byte, and a shard that the index names alone."""
    kinds = ("dcp", "model.pt", "model.safetensors", "snapshot")
    whole = examine_files(saved)
    assert {Path(one.path).name for one in whole} == set(kinds)
    assert not any(one.index or one.lost for one in whole)
    assert [len(one.parts) for one in whole] == [len(STATE)] * len(kinds)
    shard = (saved / "model.safetensors").read_bytes()
    (tmp_path / "a.safetensors").write_bytes(shard)
    (tmp_path / "b.safetensors").write_bytes(shard[:-10])
    (tmp_path / "c.safetensors").touch()
    names = {"layer.0": "a.safetensors", "y": "d.safetensors"}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": names}))
    (tmp_path / "config.json").write_text("{}")
    found = {Path(one.path).name[0]: one for one in examine_files(tmp_path)}
    assert {name: one.index for name, one in found.items()} == {
        "a": "", "b": "", "c": "cut or broken", "d": "the file is missing",
    }  # fmt: skip
    assert {name: [part.name for part in one.lost] for name, one in found.items()} == {
        "a": [], "b": ["layer.5"], "c": [], "d": [],
    }  # fmt: skip
    index.write_text("{}")
    assert [one.index for one in examine_files(tmp_path) if one.path == str(index)] == ["broken"]


@pytest.mark.parametrize("suffix", ["pt", "pth", "bin", "ckpt", "safetensors"])
def test_what_has_the_name_of_a_checkpoint_is_never_left_out(
    saved: Path, tmp_path: Path, suffix: str
) -> None:
    """One without a byte is broken, one that is gone missing, and others are not examined."""
    shutil.copy(saved / "model.pt", tmp_path / "whole.pt")
    (tmp_path / f"empty.{suffix}").touch()
    (tmp_path / f"gone.{suffix}").symlink_to(tmp_path / "none")
    (tmp_path / f"loop.{suffix}").symlink_to(tmp_path / f"loop.{suffix}")
    (tmp_path / f"strange.{suffix}").write_bytes(b"neither a pickle nor an archive")
    os.mkfifo(tmp_path / f"pipe.{suffix}")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "none")
    found = {Path(one.path).stem: (one.index, one.checked) for one in examine_files(tmp_path)}
    unknown = "not examined: of no format that is known"
    assert found == {
        "whole": ("", "checksums"),
        "empty": ("cut or broken", "extents"),
        "gone": ("the file is missing", "extents"),
        "loop": ("not examined: Too many levels of symbolic links", "nothing"),
        "pipe": ("not examined: no regular file", "nothing"),
        "strange": ("cut or broken", "extents")
        if suffix == "safetensors"
        else (unknown, "nothing"),
    }


def test_a_folder_that_cannot_be_read_is_told(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies in it is not known; the others are examined all the same."""
    if os.getuid() != 0:
        pytest.skip("becomes another user")
    tmp_path.chmod(0o755)
    shutil.copy(saved / "model.pt", tmp_path / "a.pt")
    (tmp_path / "sub").mkdir(mode=0o700)
    shutil.copy(saved / "model.pt", tmp_path / "c.pt")
    (tmp_path / "c.pt").chmod(0o600)
    monkeypatch.chdir(tmp_path)
    os.seteuid(65534)
    try:
        found = {one.path: one.index for one in examine_files(Path())}
        with pytest.raises(TraceFormatError, match=r"sub cannot be read \(Permission denied\)"):
            checkpoint.read(Path())
    finally:
        os.seteuid(0)
    denied = "not examined: Permission denied"
    assert found == {"a.pt": "", "c.pt": denied, "sub": denied}


@pytest.mark.parametrize("suffix", ["bin", "safetensors"])
def test_a_tensor_that_an_index_of_shards_names_is_to_be_in_its_file(
    tmp_path: Path, suffix: str
) -> None:
    """A file of the right name that holds another tensor has lost it."""
    save = torch.save if suffix == "bin" else save_file
    save({"w": torch.ones(4)}, tmp_path / f"a.{suffix}")
    index = tmp_path / f"model.{suffix}.index.json"
    names = {"w": f"a.{suffix}", "v": f"a.{suffix}", "u": f"b.{suffix}"}
    index.write_text(json.dumps({"weight_map": names}))
    a, b = examine_files(tmp_path)
    assert readable(a) == ["w"]
    lost = "the index names it, and the file does not hold it"
    assert [(part.name, part.lost) for part in a.lost] == [("v", lost)]
    assert (Path(b.path).name, b.index) == (f"b.{suffix}", "the file is missing")


def test_a_folder_of_dcp_below_that_lost_its_index_is_told(saved: Path, tmp_path: Path) -> None:
    """Its shards are no archives of their own."""
    shutil.copytree(saved / "dcp", tmp_path / "dcp")
    (tmp_path / "dcp" / ".metadata").unlink()
    (found,) = examine_files(tmp_path)
    assert (found.path, found.engine) == (str(tmp_path / "dcp"), "dcp")
    assert ".metadata is missing" in found.index

"""Torn checkpoints: what can be read is what the whole one says lies before the tear."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from iotrace.traces.formats import checkpoint
from iotrace.traces.formats.damage import examine, examine_files, examine_named

from .saved_states import STATE, readable, save_state, state_of


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same state, as each engine keeps it."""
    folder = tmp_path_factory.mktemp("saved")
    save_state(folder)
    return folder


@pytest.mark.parametrize("name", ["model.pt", "model.safetensors", "dcp", "snapshot"])
def test_a_whole_checkpoint_is_whole(saved: Path, name: str) -> None:
    """Nothing is said to be lost that is there."""
    found = state_of(saved / name)
    assert (found.index, found.lost) == ("", ())
    assert len(found.parts) == len(STATE)
    assert found.checked == ("checksums" if name == "model.pt" else "extents")


@pytest.mark.parametrize("name", ["model.pt", "model.safetensors", "dcp", "snapshot"])
def test_a_path_from_the_folder_above_finds_the_same(
    saved: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The folder in a relative path counts once."""
    monkeypatch.chdir(saved.parent)
    relative = Path(saved.name, name)
    found = state_of(relative)
    assert (found.index, found.lost, len(found.parts)) == ("", (), len(STATE))
    assert all(Path(part.path).is_file() for part in found.parts)
    trace = checkpoint.read(relative)
    assert trace.strings("path") == checkpoint.read(saved / name).strings("path")


def test_a_cut_archive_gives_back_what_lies_before_the_cut(saved: Path, tmp_path: Path) -> None:
    """Every cut: torch reads none of them; the bytes found are those of the tensors."""
    whole = (saved / "model.pt").read_bytes()
    with zipfile.ZipFile(saved / "model.pt") as archive:
        first = min(
            record.header_offset for record in archive.infolist() if "data/" in record.filename
        )
    ends = {part.name: part.offset + part.length for part in state_of(saved / "model.pt").parts}
    cuts = np.random.default_rng(7).integers(first, archive.start_dir, 25).tolist()
    for cut in [*cuts, *ends.values(), archive.start_dir]:
        torn = tmp_path / "torn.pt"
        torn.write_bytes(whole[:cut])
        found = state_of(torn)
        assert found.index.startswith("missing")
        assert readable(found) == sorted(name for name, end in ends.items() if end <= cut)
        assert len(found.parts) == len(STATE)
        for part in found.parts:
            if not part.lost:
                data = np.fromfile(torn, np.float32, part.length // 4, offset=part.offset)
                assert np.array_equal(data, STATE[part.name].numpy())
    with pytest.raises(RuntimeError, match="central directory"):
        torch.load(torn)


def test_zeros_in_the_place_of_the_end_prove_no_tensor(saved: Path, tmp_path: Path) -> None:
    """A file that was made at its full size, or whose last pages never reached the disk."""
    whole, torn = (saved / "model.pt").read_bytes(), tmp_path / "torn.pt"
    parts = state_of(saved / "model.pt").parts
    cut = parts[2].offset + parts[2].length // 2
    torn.write_bytes(whole[:cut] + bytes(len(whole) - cut))
    found = state_of(torn)
    assert readable(found) == ["layer.0", "layer.1"]
    filled = -(-cut // 4096) * 4096
    zeros = f"zeros from byte {filled:,} of the file on, which may never have been written"
    assert found.lost[0].lost == zeros
    assert found.zeros_bytes == len(whole) - filled
    headed = (saved / "model.safetensors").read_bytes()
    torn.write_bytes(headed[:-10_000] + bytes(10_000))
    assert state_of(torn).zeros_bytes in range(10_000 - 4096, 10_001)
    assert state_of(saved / "model.safetensors").zeros_bytes == 0


@pytest.mark.parametrize("name", ["a.pt", "a.bin", "a.safetensors"])
def test_a_file_of_zeros_alone_was_never_written(name: str, tmp_path: Path) -> None:
    """Made at its full size, and no more; alone, and in a folder."""
    (tmp_path / name).write_bytes(bytes(10_000))
    found = examine_named(tmp_path / name)
    assert found is not None
    assert (found.index, found.zeros_bytes) == ("zeros alone: it was never written", 10_000)
    assert examine_files(tmp_path) == (found,)
    assert examine_named(Path(__file__)) is None


def test_an_index_that_ends_in_zeros_is_whole(tmp_path: Path) -> None:
    """Its last number is 0, and may begin a page of its own."""

    def saved_as(stem: str, values: int) -> Path:
        path = tmp_path / f"{stem}.pt"
        torch.save({"w": torch.ones(values)}, path)
        return path

    # The name of the file is in its index, what lies before that in multiples of 64 bytes.
    stems = ("m" * length for length in range(1, 65))
    stem = next(stem for stem in stems if saved_as(stem, 16).stat().st_size % 64 == 2)
    more = -(saved_as(stem, 16).stat().st_size // 64) % 64
    whole = saved_as(stem, 16 + 16 * more)
    assert whole.stat().st_size % 4096 == 2
    assert whole.read_bytes().endswith(b"\0\0")
    found = state_of(whole)
    assert (found.index, found.lost, found.zeros_bytes) == ("", (), 0)


def test_a_cut_within_the_names_leaves_nothing_to_tell(saved: Path, tmp_path: Path) -> None:
    """Neither a tensor nor a crash."""
    torn = tmp_path / "torn.pt"
    torn.write_bytes((saved / "model.pt").read_bytes()[:300])
    found = state_of(torn)
    assert found.parts == () and "names" in found.index


def test_a_checkpoint_without_tensors_is_whole(tmp_path: Path) -> None:
    """It has an index, and names of nothing."""
    torch.save({"epoch": 3}, tmp_path / "epoch.pt")
    found = state_of(tmp_path / "epoch.pt")
    assert (found.index, found.parts) == ("", ())


def test_names_that_were_overwritten_are_told_of(saved: Path, tmp_path: Path) -> None:
    """The archive is one of torch.save all the same; its index is there and does not help."""
    broken = tmp_path / "broken.pt"
    whole = (saved / "model.pt").read_bytes()
    begin = whole.index(b"\x80", whole.index(b"data.pkl"))
    broken.write_bytes(whole[: begin + 2] + b"\xff" * 10 + whole[begin + 12 :])
    found = state_of(broken)
    assert found.parts == ()
    assert found.index == "there, but the names at the front are broken"


def test_a_page_that_never_reached_the_disk_is_found(saved: Path, tmp_path: Path) -> None:
    """The size is right and torch.load does not complain of the hole."""
    holed = tmp_path / "holed.pt"
    shutil.copy(saved / "model.pt", holed)
    part = next(p for p in state_of(holed).parts if p.name == "layer.3")
    with holed.open("r+b") as file:
        file.seek(part.offset + 8192)
        file.write(bytes(4096))
    found = state_of(holed)
    assert found.index == ""
    assert [(one.name, one.lost) for one in found.lost] == [("layer.3", "its checksum is wrong")]


def test_archives_without_checksums_are_held_against_their_extents(tmp_path: Path) -> None:
    """As torch writes them with compute_crc32 switched off; the cut counts all the same."""
    config = torch.utils.serialization.config.save
    before, config.compute_crc32 = config.compute_crc32, False
    try:
        torch.save(STATE, tmp_path / "plain.pt")
    finally:
        config.compute_crc32 = before
    found = state_of(tmp_path / "plain.pt")
    assert (found.index, found.lost, found.checked) == ("", (), "extents")


def test_checksums_that_are_not_there_are_not_said_to_hold(saved: Path, tmp_path: Path) -> None:
    """One storage of six has none: the others alone are told to be held against theirs."""
    whole, mixed = (saved / "model.pt").read_bytes(), tmp_path / "mixed.pt"
    with zipfile.ZipFile(saved / "model.pt") as archive:
        record = next(one for one in archive.infolist() if one.filename.endswith("data/3"))
    in_index = whole.rindex(record.filename.encode()) - 46 + 16  # of the field in its entry
    assert whole[in_index : in_index + 4] == record.CRC.to_bytes(4, "little")
    mixed.write_bytes(whole[:in_index] + bytes(4) + whole[in_index + 4 :])
    assert (state_of(mixed).lost, state_of(mixed).checked) == ((), "some checksums")


def test_a_cut_safetensors_file_loses_its_end(saved: Path, tmp_path: Path) -> None:
    """Its header says where all of them were to be."""
    torn = tmp_path / "torn.safetensors"
    whole = state_of(saved / "model.safetensors")
    cut = whole.parts[2].offset + 100
    torn.write_bytes((saved / "model.safetensors").read_bytes()[:cut])
    found = state_of(torn)
    assert readable(found) == sorted(part.name for part in whole.parts[:2])
    assert found.lost[0].lost == f"cut: 100 of {whole.parts[2].length:,} bytes are there"
    torn.write_bytes(torn.read_bytes()[:200])
    assert state_of(torn).index == "cut or broken"


def test_a_file_of_the_legacy_format_is_held_against_its_extents(tmp_path: Path) -> None:
    """As torch wrote them before 1.6: the cut loses the last tensor."""
    old = tmp_path / "old.bin"
    torch.save(STATE, old, _use_new_zipfile_serialization=False)
    whole = state_of(old)
    assert (whole.engine, whole.index, whole.checked) == ("torch.save", "", "extents")
    assert readable(whole) == sorted(STATE)
    assert whole.parts[-1].offset + whole.parts[-1].length == old.stat().st_size
    os.truncate(old, old.stat().st_size - 10)
    (cut,) = examine_files(tmp_path)
    assert [part.name for part in cut.lost] == [whole.parts[-1].name]
    os.truncate(old, 200)
    assert state_of(old).index == "cut or broken"


def test_what_is_no_checkpoint_is_none(tmp_path: Path) -> None:
    """Traces, archives of others and texts go their own way."""
    assert examine(tmp_path) is None
    texts = (b"PAR1" + bytes(40), b"", b"some text, no more", b"\\section{text}")
    for name, content in zip("abcd", texts, strict=True):
        (tmp_path / name).write_bytes(content)
        assert examine(tmp_path / name) is None
    np.savez(tmp_path / "arrays.npz", weights=np.ones(40))
    for cut in (0, 100):  # an index, and none
        os.truncate(tmp_path / "arrays.npz", (tmp_path / "arrays.npz").stat().st_size - cut)
        assert examine(tmp_path / "arrays.npz") is None

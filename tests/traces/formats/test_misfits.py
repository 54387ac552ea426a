"""Checkpoints whose bytes are all there, and of which no engine makes the tensors they tell of."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torchsnapshot import Snapshot, StateDict

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.formats import checkpoint
from iotrace.traces.formats.damage import examine

WIDE = torch.arange(8, dtype=torch.float32)


def lost(path: Path) -> list[str]:
    """Return what is said to be lost of a checkpoint, and prove that `convert` refuses it."""
    found = examine(path)
    assert found is not None
    with pytest.raises(TraceFormatError, match="is a damaged checkpoint"):
        checkpoint.read(path)
    return [part.lost for part in found.lost] or [found.index]


def with_record(path: Path, name: str, old: bytes, new: bytes) -> Path:
    """Make an archive again, with other bytes in one of its records."""
    with zipfile.ZipFile(path) as archive:
        records = {record: archive.read(record) for record in archive.namelist()}
    made = path.with_name("made.pt")
    with zipfile.ZipFile(made, "w") as archive:
        for record, data in records.items():
            ours = record.endswith(name)
            assert not ours or old in data
            archive.writestr(record, data.replace(old, new) if ours else data)
    return made


def number(value: int) -> bytes:
    """Return how a pickle of protocol 2 tells a number."""
    return pickle.dumps(value, 2)[2:-1]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        # (offset, shape, stride) of `WIDE`, in that order
        (b"K\x08\x85", b"K\x09\x85", "its shape and strides reach to byte 36 of a storage of 32"),
        (b"K\x01\x85", b"K\x02\x85", "its shape and strides reach to byte 60 of a storage of 32"),
        (b"QK\x00", b"QK\x03", "its shape and strides reach to byte 44 of a storage of 32"),
        (b"K\x08t", b"K\x64t", "its record has 32 bytes, the pickle says 400"),
        (
            b"QK\x00",
            b"Q" + number(2**63 - 1),
            "its shape and strides reach to byte 36,893,488,147,419,103,260 of a storage of 32",
        ),
        (b"QK\x00", b"Q" + number(-1), "it begins 4 bytes before its storage"),
        (
            b"K\x08\x85q\x08K\x01\x85",
            number(2**62) + b"K\x08\x86q\x08K\x00K\x01\x86",
            "its shape and strides reach to byte 147,573,952,589,676,412,928 of a storage of 32",
        ),
        (b"K\x08t", number(2**70) + b"t", "there, but the names at the front are broken"),
    ],
)
def test_a_tensor_that_its_storage_cannot_hold_is_lost(
    tmp_path: Path, old: bytes, new: bytes, told: str
) -> None:
    """The storage is whole by its checksum; torch refuses each."""
    torch.save({"w": WIDE}, tmp_path / "w.pt")
    made = with_record(tmp_path / "w.pt", "data.pkl", old, new)
    with pytest.raises((RuntimeError, TypeError)):
        torch.load(made)
    assert lost(made) == [told]


def test_strides_offsets_and_types_of_real_tensors_fit(tmp_path: Path) -> None:
    """Views, expanded and empty ones, types of every size: torch reads them, all are whole."""
    state = {
        "empty": torch.empty(0),
        "expanded": torch.ones(1).expand(4, 5),
        "view": torch.arange(12.0).reshape(3, 4).t()[1:],
        "complex": torch.ones(3, dtype=torch.complex64).conj(),
        "sparse": torch.eye(3).to_sparse(),
        "parameter": torch.nn.Parameter(torch.ones(2, 3)),
        "scalar": torch.tensor(1.0),
    }
    newer = {
        "uint16": torch.zeros(4, dtype=torch.uint16),
        "float8": torch.ones(3).to(torch.float8_e4m3fn),
    }
    torch.save(newer, tmp_path / "new.pt")
    assert examine(tmp_path / "new.pt").lost == ()  # type: ignore[union-attr]
    for is_zip in (True, False):
        torch.save(state, tmp_path / "a.pt", _use_new_zipfile_serialization=is_zip)
        torch.load(tmp_path / "a.pt", weights_only=False)
        found = examine(tmp_path / "a.pt")
        assert found is not None
        assert (found.index, found.lost, len(found.parts)) == ("", (), 8)
        assert len(checkpoint.read(tmp_path / "a.pt")) == 16


def test_the_legacy_stream_counts_its_elements_twice(tmp_path: Path) -> None:
    """Once in the pickle, once before the storage: they must agree; so must the shape."""
    path = tmp_path / "w.pt"
    torch.save({"w": WIDE}, path, _use_new_zipfile_serialization=False)
    whole = path.read_bytes()
    count = (8).to_bytes(8, "little")
    path.write_bytes(whole.replace(count, (7).to_bytes(8, "little")))
    with pytest.raises(RuntimeError):
        torch.load(path)
    assert lost(path) == ["its record has 28 bytes, the pickle says 32"]
    path.write_bytes(whole.replace(b"K\x08\x85", b"K\x09\x85"))
    with pytest.raises(RuntimeError):
        torch.load(path)
    assert lost(path) == ["its shape and strides reach to byte 36 of a storage of 32"]


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ('{"a":{"dtype":"F32","shape":[8],"data_offsets":[0,16]}}', "take 32 bytes, its place has"),
        ('{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', "8 bytes behind the last"),
        ('{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}}', "it begins 8 bytes behind"),
        (
            '{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},'
            '"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}}',
            "it begins 4 bytes before the end",
        ),
        (
            '{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},'
            '"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}',
            "cut or broken",
        ),
    ],
)
def test_what_safetensors_refuses_is_lost(tmp_path: Path, header: str, told: str) -> None:
    """Shape against place, holes, overlaps, bytes behind the end, a name that stands twice."""
    path = tmp_path / "a.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode() + bytes(16))
    with pytest.raises(SafetensorError):
        load_file(path)
    (said,) = lost(path)
    assert told in said


def test_types_of_less_than_a_byte_fit(tmp_path: Path) -> None:
    """Their shape counts elements, two of them a byte."""
    save_file({"f4": torch.zeros(2, 4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)},
              tmp_path / "a.safetensors")  # fmt: skip
    found = examine(tmp_path / "a.safetensors")
    assert found is not None
    assert (found.index, found.lost) == ("", ())


def test_parts_of_dcp_are_held_against_their_tensor(tmp_path: Path) -> None:
    """A chunk longer than its tensor, and one whose archive has fewer bytes."""
    dcp.save({"w": WIDE}, checkpoint_id=tmp_path, no_dist=True)
    index = tmp_path / ".metadata"
    metadata = pickle.loads(index.read_bytes())
    (chunk,) = metadata.state_dict_metadata["w"].chunks
    chunk.sizes = torch.Size([9])
    index.write_bytes(pickle.dumps(metadata))
    assert lost(tmp_path) == ["it reaches beyond its tensor"]
    metadata.state_dict_metadata["w"].size = chunk.sizes = torch.Size([4000])
    index.write_bytes(pickle.dumps(metadata))
    (said,) = lost(tmp_path)
    assert said.startswith("its shape and type take 16,000 bytes, its place has")
    metadata.state_dict_metadata["w"].size = chunk.sizes = torch.Size([8])
    index.write_bytes(pickle.dumps(metadata))
    assert examine(tmp_path).lost == ()  # type: ignore[union-attr]
    torch.save(WIDE, tmp_path / "w.pt")
    (shard,) = tmp_path.glob("*.distcp")
    with_record(tmp_path / "w.pt", "data.pkl", b"K\x08\x85", b"K\x09\x85").replace(shard)
    (place,) = metadata.storage_data.values()
    place.offset, place.length = 0, shard.stat().st_size
    index.write_bytes(pickle.dumps(metadata))
    assert lost(tmp_path) == ["its shape and strides reach to byte 36 of a storage of 32"]


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("shape", [9], "its shape and type take 36 bytes, its place has 32"),
        ("byte_range", [0, 28], "its shape and type take 32 bytes, its place has 28"),
        ("dtype", "torch.float64", "its shape and type take 64 bytes, its place has 32"),
    ],
)
def test_places_of_a_snapshot_are_held_against_its_shapes(
    tmp_path: Path, key: str, value: object, told: str
) -> None:
    """Two tensors in one file, each in its range."""
    Snapshot.take(str(tmp_path), {"app": StateDict(w=WIDE)})
    index = tmp_path / ".snapshot_metadata"
    metadata = json.loads(index.read_text())
    entry = metadata["manifest"]["0/app/w"]
    entry["byte_range"] = [0, 32]
    index.write_text(json.dumps(metadata))
    found = examine(tmp_path)
    assert found is not None
    assert (found.index, found.lost) == ("", ())
    entry[key] = value
    index.write_text(json.dumps(metadata))
    assert lost(tmp_path) == [told]

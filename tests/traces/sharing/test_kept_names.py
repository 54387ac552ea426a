"""What sharing keeps or makes is no leak, wherever it stands; what stands beside it is one."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from iotrace.traces.metadata import Metadata, Process
from iotrace.traces.reader import read_trace
from iotrace.traces.sharing.leftovers import find_leftovers
from iotrace.traces.sharing.publish import publish
from iotrace.traces.sharing.share import ShareOptions
from iotrace.traces.trace import Strings, Trace
from iotrace.traces.writer import write_trace

ENGINE_FILES = {
    "train_model.py": ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"],
    "big_model": ["mp_rank_00_model_states.pt"],
    "big-model": ["model-00001-of-00002.safetensors", "model.safetensors.index.json"],
    "metadata-x": [".metadata", "__0_0.distcp"],
    "rank_optim": ["zero_pp_rank_0_mp_rank_00_optim_states.pt"],
    "global_step_x": ["global_step5"],
    "optimizer-states": ["global_step7/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"],
    "replicated_to": ["0/replicated/w", "batched/x", "sharded"],
}


def unlinks(paths: list[str], *command: str) -> Trace:
    rows = len(paths)
    return Trace.from_columns(
        {
            "layer": Strings.constant("request", rows),
            "op": Strings.constant("unlink", rows),
            "path": Strings.of(paths),
            "seq": np.arange(rows),
            "start_ns": np.arange(rows),
        },
        Metadata(command=command, processes=(Process(1, argv=command),)),
    )


def found(shared: Trace, path: Path, original: Trace) -> list[str]:
    write_trace(shared, path, force=True)
    return [str(one) for one in find_leftovers(str(path), read_trace(path), original)]


@pytest.mark.parametrize("owned", ENGINE_FILES)
def test_words_of_an_engines_names_are_no_leak(owned: str, tmp_path: Path) -> None:
    """The owner's names hold the words that the engine's have."""
    trace = unlinks(
        [f"/home/me/{owned}/{name}" for name in ENGINE_FILES[owned]], "python", f"/src/{owned}"
    )
    shared = publish(trace, ShareOptions(key=bytes(range(32))))
    names = [path.split("/", 4)[4] for path in shared.strings("path") if path]
    assert names == ENGINE_FILES[owned] or owned == "replicated_to"
    assert found(shared, tmp_path / "t.parquet", trace) == []


@pytest.mark.parametrize("leak", ["model", "big_model", "model_of_mine.pt", "x/model-1.ptsecret"])
def test_the_same_word_elsewhere_is_a_leak(leak: str, tmp_path: Path) -> None:
    """The search is not blind to a word because an engine's file has it."""
    name = "model-00001-of-00002.safetensors"
    trace = unlinks([f"/home/big_model/{name}", f"/home/{leak}"], "model")
    shared = publish(trace, ShareOptions(key=bytes(range(32))))
    leaky = shared.with_columns({"path": Strings.of([shared.strings("path")[0], f"/{leak}"])})
    assert any("a page of column path" in f for f in found(leaky, tmp_path / "t.parquet", trace))


LETTERS = "bcdfghjklmnpqrstvwxz"
SHORT = [
    *(f"/d/{letter}.pt" for letter in LETTERS),
    *(f"/d/{letter}.bin" for letter in LETTERS),
    *(f"/d/{a}{b}{c}.pt" for a, b, c in zip(LETTERS, LETTERS[3:], LETTERS[7:], strict=False)),
    *("/bcdf/wxzt", "/d/bcdf-7.pt.tmp", "/d/pqrs.json"),
]


def test_short_names_are_found_in_no_pseudonym(tmp_path: Path) -> None:
    """A pseudonym ends in any consonant for one key of twenty: no key of 200 may be refused."""
    trace = unlinks(SHORT, "python", "x.pt", "bcd.pt")
    draw = random.Random(7)
    for _ in range(200):
        publish(trace, ShareOptions(key=draw.randbytes(32)))


def test_short_names_that_are_there_are_found(tmp_path: Path) -> None:
    """As components, and in text that is no pseudonym."""
    trace = unlinks(SHORT)
    shared = publish(trace, ShareOptions(key=bytes(range(32))))
    for leak in ("/x.pt", "/bcdf", "/vvvvvvvvvv/qqqqqqqqqq-x.pt"):
        paths = [*shared.strings("path")[1:], leak]
        leaky = shared.with_columns({"path": Strings.of(paths)})
        assert found(leaky, tmp_path / "t.parquet", trace)


def test_a_name_in_the_form_of_a_pseudonym_is_found(tmp_path: Path) -> None:
    """Ten consonants may be anybody's."""
    trace = unlinks(["/d/wrzplgrmth"], "python")
    shared = publish(trace, ShareOptions(key=bytes(range(32))))
    leaky = shared.with_columns({"path": Strings.of(["/bcdfghjklm/wrzplgrmth"])})
    assert any("wrzplgrmth" in f for f in found(leaky, tmp_path / "t.parquet", trace))

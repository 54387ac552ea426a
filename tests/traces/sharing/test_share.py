"""What a shared trace says, and what it does not."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from iotrace.traces.counters import FILE_COUNTERS, PROCESS_COUNTERS
from iotrace.traces.digest import workload_digest
from iotrace.traces.merge import merge_traces
from iotrace.traces.metadata import Host, Mount, RecordedOn
from iotrace.traces.reader import read_trace
from iotrace.traces.schema import INT_COLUMNS, METADATA_KEY
from iotrace.traces.selection import Selection, SelectionError
from iotrace.traces.sharing.card import CARD, Card
from iotrace.traces.sharing.leftovers import find_leftovers
from iotrace.traces.sharing.needles import needles_of
from iotrace.traces.sharing.pseudonyms import is_host_pseudonym, is_keyed_path
from iotrace.traces.sharing.publish import publish
from iotrace.traces.sharing.share import KEY, ShareOptions
from iotrace.traces.trace import Strings, Trace
from iotrace.traces.writer import write_trace
from tests.traces.sharing.conftest import SECRETS

KEYED = ShareOptions(tensor_names=KEY, licence="CC-BY-4.0")


def everything(path: Path) -> str:
    """All that a Parquet file says: as bytes, as rows, and in its footer."""
    described = pq.read_metadata(path)
    said = [path.read_bytes().decode("latin-1"), str(described.metadata), str(described.schema)]
    said.append(str(pq.read_table(path).to_pylist()))
    for group in range(described.num_row_groups):
        columns = (described.row_group(group).column(i) for i in range(described.num_columns))
        said += [str(column.to_dict()) for column in columns]
    return "\n".join(said)


def test_no_secret_survives_anywhere(owned: Trace, tmp_path: Path) -> None:
    """Every secret is found in the original by the same search, and none afterwards."""
    before, after = tmp_path / "own.parquet", tmp_path / "public.parquet"
    write_trace(owned, before)
    write_trace(publish(owned, KEYED), after)
    original, shared = everything(before), everything(after)
    assert [secret for secret in SECRETS if secret not in original] == []
    assert [secret for secret in SECRETS if secret in shared] == []
    assert find_leftovers(str(after), read_trace(after), owned) == []


def test_what_work_is_made_of_stays(owned: Trace) -> None:
    """Every number but times and addresses, in the same order; the digest is the proof of it."""
    shared = publish(owned, KEYED)
    for column in set(INT_COLUMNS) - {"start_ns", "end_ns", "address"}:
        assert np.array_equal(shared.ints(column), owned.ints(column)), column
        assert np.array_equal(shared.valid(column), owned.valid(column)), column
    assert shared.shapes() == owned.shapes()
    known = owned.with_columns({
        "engine": Strings.constant("dcp", len(owned)),
        "dtype": Strings.constant(None, len(owned)),
    })  # fmt: skip
    assert workload_digest(publish(known, KEYED)) == workload_digest(known)
    assert workload_digest(known) != workload_digest(owned)


def test_times_count_from_the_first_request(owned: Trace) -> None:
    """Durations and gaps stay, dates do not."""
    shared = publish(owned, KEYED)
    assert shared.ints("start_ns").tolist() == [i * 1000 for i in range(len(owned))]
    assert (shared.ints("end_ns") - shared.ints("start_ns") == 500).all()
    assert shared.metadata.epoch_realtime_ns == 0
    assert all(entry.realtime_ns is None for entry in shared.metadata.history)


def test_equal_names_stay_equal_and_different_ones_different(owned: Trace) -> None:
    """A file is recognised by its name, in rows, targets and completeness alike."""
    shared = publish(owned, KEYED)
    pairs = set(zip(owned.strings("path"), shared.strings("path"), strict=True))
    assert len(pairs) == len(set(owned.strings("path"))) == len(set(shared.strings("path")))
    names = dict(pairs)
    assert shared.metadata.completeness.files[0].path == names[owned.strings("path")[0]]
    target = shared.strings("target")[-3]
    assert f"{target}.tmp" == shared.strings("path")[-3]


def test_tensor_names_are_kept_unless_keyed(owned: Trace) -> None:
    """They say the model's structure; whether that is a secret, its owner knows."""
    kept = publish(owned, ShareOptions())
    assert kept.strings("name")[1] == "wisdom.layers.3.attn"
    assert "jd58311" not in str(kept.strings("name"))
    keyed = publish(owned, KEYED).strings("name")
    assert re.fullmatch(r"[a-z]{10}\.[a-z]{10}\.3\.[a-z]{10}", keyed[1] or "")
    assert keyed[1] == keyed[6]
    assert keyed[-1] == kept.strings("name")[-1] == "read_bytes"


@pytest.mark.parametrize("name", [*PROCESS_COUNTERS, *FILE_COUNTERS])
def test_counters_are_called_as_before(name: str, owned: Trace) -> None:
    """What a capture counts at the ends of spans is found by its name."""
    names = [*owned.strings("name")[:-1], name]
    counted = owned.with_columns({"name": Strings.of(names)})
    assert publish(counted, KEYED).strings("name")[-1] == name


def test_the_metadata_keep_what_explains_the_numbers(owned: Trace) -> None:
    """Cores, file system, alignment, versions; sizes of machines are rounded."""
    metadata = publish(owned, KEYED).metadata
    host, mount, process = metadata.hosts[0], metadata.mounts[0], metadata.processes[1]
    assert (host.kernel, host.machine, host.cores) == ("6.8", "x86_64", 64)
    assert host.memory_bytes == 503 << 30
    assert (mount.file_system, mount.version) == ("lustre", "2.15.4")
    assert mount.options == "rw,flock,rsize=1048576"
    assert (mount.stripe_bytes, mount.stripe_count, mount.free_bytes) == (1 << 20, 4, None)
    assert (process.pid, process.rank, process.world_size) == (2, 1, 2)
    assert process.libraries == {"torch": "2.8.0"}
    assert len(metadata.completeness.notes) == 4
    assert metadata.completeness.extra == {"processes_left_out": 3}


def test_a_results_recording_is_told_under_pseudonyms(owned: Trace) -> None:
    """Its host and storage are of a site as well; a search for leftovers knows them."""
    there = RecordedOn(
        (Host("secret-node", boot_id="b-1", kernel="5.14.0-x", memory_bytes=(64 << 30) + 5),),
        (Mount("/secret-scratch", source="secret-server:/x", file_system="nfs4"),),
    )
    result = owned.with_metadata(replace(owned.metadata, recorded_on=there))
    found = publish(result, KEYED).metadata.recorded_on
    (host,), (mount,) = found.hosts, found.mounts
    assert is_host_pseudonym(host.name) and is_keyed_path(mount.path)
    assert (host.kernel, host.memory_bytes, host.boot_id) == ("5.14", 64 << 30, "")
    assert (mount.file_system, mount.source) == ("nfs4", "")
    needles = needles_of(result, "")
    assert {b"secret-node", b"secret-scratch", b"secret-server"} <= set(needles.texts)


def test_the_card_tells_what_the_trace_is(owned: Trace) -> None:
    """In the file, and as a page."""
    card = Card.of(publish(owned, KEYED).metadata)
    page = card.to_markdown("public.parquet")
    assert card.digest in page
    assert "| licence | CC-BY-4.0 |" in page
    assert "| scale | 2 ranks, 2 processes, 2 steps |" in page
    assert "| file system | lustre |" in page
    assert "| complete | **no** |" in page
    assert all(len(line) < 120 for line in page.splitlines())


def test_one_key_links_traces(owned: Trace) -> None:
    """A set of traces of one site, published over months, keeps its names."""
    first, second = (publish(owned, ShareOptions(key=bytes(32))) for _ in range(2))
    assert first.strings("path") == second.strings("path")
    other = publish(owned, ShareOptions())
    assert set(other.strings("path")) & set(first.strings("path")) == {None}


def test_a_part_is_shared_with_what_belongs_to_it(owned: Trace) -> None:
    """A rank, with its process and files and nothing of the others."""
    shared = publish(owned, ShareOptions(selection=Selection(ranks=(1,))))
    assert set(shared.ints("rank").tolist()) == {1}
    assert set(shared.ints("process").tolist()) == {0}
    assert [process.rank for process in shared.metadata.processes] == [1]
    assert shared.metadata.completeness.files == ()
    card = Card.of(shared.metadata)
    assert card.selection == "rank 1"
    assert "Times count from the first row of the whole trace." in card.to_markdown("part")
    whole = Card.of(publish(owned, ShareOptions()).metadata)
    assert "Times count from the first row." in whole.to_markdown("whole")


def test_parts_are_joined_as_they_were(owned: Trace) -> None:
    """On their own clock, if one key made them; what the part of it was does not matter."""
    steps = [Selection(steps=(step,)) for step in (1, 0)]
    parts = [publish(owned, ShareOptions(key=bytes(32), selection=one)) for one in steps]
    whole = publish(owned, ShareOptions(key=bytes(32)))
    joined = merge_traces(parts)
    first_ns = int(joined.ints("start_ns").min())
    of_step = whole.where(whole.valid("step"))
    assert joined.ints("start_ns").tolist() == of_step.ints("start_ns").tolist()
    assert first_ns == int(of_step.ints("start_ns").min())
    assert joined.ints("step").tolist() == of_step.ints("step").tolist()
    assert joined.metadata.clocks == 1
    assert joined.metadata.clock == whole.metadata.clock


def test_parts_under_different_keys_follow_one_another(owned: Trace) -> None:
    steps = [Selection(steps=(step,)) for step in (1, 0)]
    joined = merge_traces([publish(owned, ShareOptions(selection=one)) for one in steps])
    assert joined.metadata.clocks == 2
    assert joined.ints("step").tolist() == sorted(joined.ints("step").tolist(), reverse=True)


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Selection(steps=(9,)), "no step 9; it has 0, 1"),
        (Selection(ranks=(5,)), "no rank 5"),
        (Selection(spans=("commit",)), "no span 'commit'; it has save"),
        (Selection(steps=(0,), ranks=(1,)), "together"),
    ],
)
def test_what_is_not_there_cannot_be_selected(
    owned: Trace, selection: Selection, message: str
) -> None:
    """The message says what there is."""
    with pytest.raises(SelectionError, match=message):
        selection(owned)


def test_the_stored_card_is_the_computed_one(owned: Trace, tmp_path: Path) -> None:
    """It survives the file, as JSON that other programs read."""
    path = tmp_path / "public.parquet"
    shared = publish(owned, KEYED)
    write_trace(shared, path)
    assert read_trace(path).metadata.extra[CARD] == shared.metadata.extra[CARD]
    assert METADATA_KEY in (pq.read_metadata(path).metadata or {})

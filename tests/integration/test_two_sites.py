"""A trace travels: captured at one site, shared through an object store, replayed at another."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from iotrace.traces.reader import read_trace
from iotrace.traces.sharing.pseudonyms import is_host_pseudonym
from tests.servers import BUCKET, s3_environment, s3_server
from tests.tools.command import iotrace

OWNER = "/home/ada5150/orca-model"
JOB = """
import sys, torch
state = {f"decoder.layers.{i}.weight": torch.randn(256, 256) for i in range(8)}
torch.save(state, sys.argv[1] + "/step100/ada_1.pt")
torch.load(sys.argv[1] + "/step100/ada_1.pt")
"""
# At the other site nobody has torch, or anything else that a receiver could do without.
RECEIVER = """
import sys
sys.modules |= dict.fromkeys(("torch", "matplotlib", "yaml", "darshan"))
from iotrace.tools.cli import main
sys.exit(main())
"""
URI = f"s3://{BUCKET}/published/public.parquet"


@pytest.fixture
def store() -> Iterator[dict[str, str]]:
    """An object store that both sites can reach; what to export to use it."""
    with s3_server() as endpoint:
        yield s3_environment(endpoint)


def sender(folder: Path, store: dict[str, str], *arguments: object) -> str:
    """Run a command as the owner of the data; return its messages."""
    more = {**store, "USER": "ada5150", "SECRET_TOKEN": "t0k3n"}
    done = iotrace(*arguments, cwd=folder, extra_env=more)
    assert done.returncode == 0, done.stderr
    return done.stderr


def receiver(folder: Path, store: dict[str, str], *arguments: object) -> str:
    """Run a command as another user, in an environment without torch; return its output."""
    command = [sys.executable, "-c", RECEIVER, *map(str, arguments)]
    if os.geteuid() == 0 and shutil.which("setpriv"):
        # The interpreter may lie in root's home: reading is allowed, writing is not.
        caps = ("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search")
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *caps, *command]
    environment = {**store, "HOME": str(folder), "PATH": os.defpath, "LANG": "C.UTF-8"}
    done = subprocess.run(command, env=environment, cwd=folder, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def there() -> Iterator[Path]:
    """A folder that any user may use."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


def test_a_trace_goes_from_site_to_site(store: dict[str, str], tmp_path: Path, there: Path) -> None:
    """Captured with torch, published by URI, and used by strangers who learn nothing else."""
    here = tmp_path
    data = here / OWNER.strip("/")
    (data / "step100").mkdir(parents=True)

    sender(here, store, "capture", "-o", "own.parquet", "--", sys.executable, "-c", JOB, data)
    told = sender(here, store, "share", "own.parquet", "-o", URI, "--licence", "CC0-1.0")
    assert f"iotrace check {URI}" in told

    proof = json.loads(receiver(there, store, "check", URI, "--shared", "--digest", "--json", "-"))
    assert proof["leftovers"] == proof["malformed"] == []
    own = json.loads(sender_digest(here, store))
    assert proof["digest"] == own["digest"]

    shown = json.loads(receiver(there, store, "show", URI, "--json", "-"))
    assert shown["engines"] == ["torch.save"]
    outcomes = []
    for shape in ((), ("--coalesce",), ("--coalesce", "--direct")):
        replayed = receiver(
            there, store, "replay", URI, *shape, "--verify", "--root", there, "--json", "-",
            "-o", f"result{len(outcomes)}.parquet",
        )  # fmt: skip
        outcomes.append(json.loads(replayed))
    assert all(outcome["verified"] for outcome in outcomes)
    assert outcomes[1]["planned"]["data_requests"] < outcomes[0]["planned"]["data_requests"]
    assert len(read_trace(there / "result2.parquet")) > 0

    for source, target in ((URI, "public.html"), ("result1.parquet", "result.html")):
        receiver(there, store, "report", source, "-o", target, "--figures", "figures", "--force")
        page = (there / target).read_text()
        assert page.count("<svg") > 3
        page = page.replace("http://www.w3.org/", "")
        assert "http://" not in page and "https://" not in page  # nothing is loaded
    assert len(list((there / "figures").glob("*.svg"))) > 3

    everything = json.dumps([shown, proof, outcomes])
    everything += "".join((there / page).read_text() for page in ("public.html", "result.html"))
    result = read_trace(there / "result0.parquet").metadata
    assert [host.name for host in result.hosts] == [os.uname().nodename]  # the receiver's own
    assert [is_host_pseudonym(host.name) for host in result.recorded_on.hosts] == [True]
    everything += str(replace(result, hosts=()))
    secrets = ("ada5150", "ada_", "5150", "orca", "t0k3n", str(here))
    assert [secret for secret in secrets if secret in everything] == []
    # As a word: a short name stands in a pseudonym by chance.
    assert os.uname().nodename not in re.split(r"[^\w.-]+", everything)


def sender_digest(folder: Path, store: dict[str, str]) -> str:
    """Return what the owner's own check says."""
    sender(folder, store, "check", "own.parquet", "--digest", "--json", "own.json")
    return (folder / "own.json").read_text()

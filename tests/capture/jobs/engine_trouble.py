"""Saves and loads that fail, then ones that do not; prints what the job sees.

Usage: engine_trouble.py FOLDER
"""

import inspect
import logging
import sys
import threading
import warnings

import torch
import torch.distributed.checkpoint as dcp
from torchsnapshot import Snapshot, StateDict

warnings.simplefilter("ignore")
logging.disable()
folder = sys.argv[1]


class Unpicklable:
    def __reduce__(self):
        raise RuntimeError("not to be pickled")


def attempt(what, function, *args, **kwargs):
    """Print what becomes of a call."""
    try:
        result = function(*args, **kwargs)
    except BaseException as error:
        print(what, type(error).__name__, str(error).replace(folder, "").splitlines()[0][:80])
    else:
        print(what, type(result).__name__)


def app(**state):
    return {"m": StateDict(**state)}


state = {"a": torch.ones(30), "b": torch.zeros(0)}
open(f"{folder}/file", "w").close()
attempt("bad", dcp.save, {**state, "o": Unpicklable()}, checkpoint_id=f"{folder}/bad", no_dist=True)
attempt("under", dcp.save, state, checkpoint_id=f"{folder}/file/below", no_dist=True)
attempt("good", dcp.save, state, checkpoint_id=f"{folder}/good", no_dist=True)
attempt("no", dcp.load, {"c": torch.ones(1)}, checkpoint_id=f"{folder}/good", no_dist=True)
attempt("shape", dcp.load, {"a": torch.ones(1)}, checkpoint_id=f"{folder}/good", no_dist=True)
attempt("good", dcp.load, dict(state), checkpoint_id=f"{folder}/good", no_dist=True)
attempt("nowhere", dcp.save, state, no_dist=True)
stage = {"o": Unpicklable()}
attempt("stage", dcp.async_save, stage, checkpoint_id=f"{folder}/bad2", no_dist=True)
bad = dcp.async_save(state, checkpoint_id=f"{folder}/file/below2", no_dist=True)
print("async", type(bad.exception()).__name__)
dcp.async_save(state, checkpoint_id=f"{folder}/good2", no_dist=True).result()

tensors = {"a": torch.ones(30)}
attempt("bad", Snapshot.take, f"{folder}/snap", app(o=Unpicklable()))
attempt("under", Snapshot.take, f"{folder}/file/below", app(**tensors))
attempt("type", Snapshot.take, f"{folder}/snap", {"m": 3})
attempt("good", Snapshot.take, f"{folder}/snap2", app(**tensors))
attempt("none", Snapshot(f"{folder}/none").restore, app(**tensors))
attempt("good", Snapshot(f"{folder}/snap2").restore, app(**tensors))
attempt("later", Snapshot.async_take(f"{folder}/snap3", app(**tensors)).wait)

for function in (dcp.save, dcp.load, dcp.async_save, Snapshot.take, Snapshot.restore):
    print(function.__qualname__, inspect.signature(function))
print(threading.active_count() < 40)

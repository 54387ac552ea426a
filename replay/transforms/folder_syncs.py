"""Syncs of the folders that files are taken out of: they become those of the folder they go to."""

import numpy as np

from iotrace.replay.grouping import first_of_each, numbered
from iotrace.replay.job import Op, is_op
from iotrace.replay.paths import ancestors
from iotrace.replay.pieces import Ints
from iotrace.replay.plan import Plan
from iotrace.replay.requests import Requests
from iotrace.replay.table import Mask
from iotrace.traces.sync_kind import syncs_folder


def are_folder_syncs(rows: Requests) -> Mask:
    """Return which requests sync a folder."""
    return np.asarray((rows["op"] == Op.SYNC) & syncs_folder(rows["flags"]))


def folder_syncs(plan: Plan, stay: Ints, lost: Requests) -> tuple[Requests, Ints]:
    """Return what is left of the folder syncs of a plan whose new files lie in the root.

    A folder that keeps files keeps its syncs. Of those of folders that lost files the last of
    each process and step becomes one of the root: it comes after the last rename or making that
    it was to make durable.

    Args:
        plan: before.
        stay: its requests that are not on the files taken out.
        lost: those that named these.

    Returns:
        Requests, and where they stand.
    """
    rows = plan.requests.take(stay)
    chosen = are_folder_syncs(rows)
    at, path = stay[chosen], rows["path"][chosen]
    if not len(at):
        return plan.requests.take(at), at
    on_folders = chosen | is_op(rows["op"], (Op.MKDIR, Op.RMDIR))
    on_folders |= (rows["op"] == Op.RENAME) & (rows["file"] < 0)
    kept, gone = (_folders(part, plan) for part in (rows.compress(~on_folders), lost))
    names = [plan.paths[one] if one >= 0 else None for one in path.tolist()]
    leaves = np.array([name in gone for name in names], np.bool_)
    stays = ~leaves | np.array([name in kept for name in names], np.bool_)
    process = np.array([stream.process for stream in plan.streams], np.int64)
    moved = at[leaves]
    group = numbered(process[plan.requests.at("stream", moved)], plan.requests.at("step", moved))
    last = moved[::-1][first_of_each(group[::-1])[1]]
    places = np.concatenate([at[stays], last])
    found = plan.requests.take(places, path=np.append(path[stays], np.full(len(last), -1)))
    order = np.argsort(places, kind="stable")
    return found.take(order), places[order]


def _folders(rows: Requests, plan: Plan) -> set[str]:
    """Return all folders above the names in some requests."""
    named = np.unique(np.concatenate([rows["path"], rows["target"]]))
    return {above for one in named.tolist() if one >= 0 for above in ancestors(plan.paths[one])}

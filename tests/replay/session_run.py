"""A replay of a small checkpoint, as several files of tests run it."""

from pathlib import Path

from iotrace.replay.options import ReplayOptions
from iotrace.replay.plan import Plan
from iotrace.replay.result import Outcome, RecordedSummary
from iotrace.replay.session import replay

NOTHING = RecordedSummary(0, 0, 0, 0, 0, 0.0, 0.0)


SAVE_AND_LOAD = """
step 0
mkdir run
open run/model.tmp w+create+trunc
write run/model.tmp 0 4100
write run/model.tmp 4100 300000
write run/model.tmp 304100 77
sync run/model.tmp
close run/model.tmp
rename run/model.tmp run/model
open run/model r
read run/model 0 4100
read run/model 4100 300000
read run/model 304100 4096 -> 77
read run/model 304177 4096 -> 0
close run/model
open data/tokens r
read data/tokens 5000 100000
close data/tokens
"""


def run(plan: Plan, root: Path, **options: object) -> Outcome:
    return replay(plan, NOTHING, ReplayOptions(root=root, **options))


def nothing_is_left(root: Path) -> bool:
    return not list(root.iterdir())

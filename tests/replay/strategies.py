"""Random jobs, as a capture would have seen them."""

from dataclasses import dataclass, field

from hypothesis import strategies as st

NAMES = ("a", "b", "c")
_SETTINGS = ("process", "thread", "step")
LENGTHS = st.sampled_from([0, 1, 7, 100, 511, 512, 513, 1024, 1500, 3000])
OFFSETS = st.sampled_from([0, 1, 512, 700, 1024, 2048, 4000])


@dataclass
class _Job:
    """What a random job has done so far: enough to go on sensibly."""

    sizes: list[int] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    opened: dict[tuple[int, str], list[int]] = field(default_factory=dict)  # inode, position, mode
    lines: list[str] = field(default_factory=list)
    thread: int = -1
    processes: int = 1

    def write(self, thread: int, line: str) -> None:
        if thread != self.thread:
            self.lines += [f"process {thread % self.processes}", f"thread {thread}"]
            self.thread = thread
        self.lines.append(line)


@st.composite
def jobs(draw: st.DrawFn, threads: int = 2, steps: int = 24) -> str:
    """The text of a job for `sketch`: opens, writes, reads, syncs, renames, removals, ..."""
    job = _Job(processes=draw(st.integers(1, threads)))
    step = -1
    for name in NAMES:
        if draw(st.booleans()):
            job.names[name] = len(job.sizes)
            job.sizes.append(draw(st.sampled_from([0, 600, 5000])))
    for _ in range(draw(st.integers(3, steps))):
        if draw(st.integers(0, 7)) == 0:
            step += 1
            job.lines.append(f"step {step}")
        thread = draw(st.integers(0, threads - 1))
        _step(draw, job, thread)
    if not any(" " in line and line.split()[0] not in _SETTINGS for line in job.lines):
        job.write(0, "mkdir d")
    for (thread, name), _ in list(job.opened.items()):
        if draw(st.booleans()):
            job.write(thread, f"close {name}")
    return "\n".join(job.lines)


def _step(draw: st.DrawFn, job: _Job, thread: int) -> None:
    mine = [name for owner, name in job.opened if owner == thread]
    act = draw(st.sampled_from(["open", "write", "write", "write", "read", "read", "sync", "close",
                                "truncate", "rename", "unlink"]))  # fmt: skip
    if act == "open" or not mine:
        _open(draw, job, thread)
    elif act in ("rename", "unlink"):
        _names(draw, job, thread, act)
    else:
        name = draw(st.sampled_from(mine))
        inode, _, mode = job.opened[(thread, name)]
        if act == "close":
            job.write(thread, f"close {name}")
            del job.opened[(thread, name)]
        elif act == "sync":
            job.write(thread, f"sync {name}")
        elif act == "truncate" and mode == 2:
            size = draw(OFFSETS)
            job.write(thread, f"truncate {name} {size}")
            job.sizes[inode] = size
        elif act == "write" and mode:
            _write(draw, job, thread, name)
        elif act == "read" and mode != 1:
            _read(draw, job, thread, name)


def _open(draw: st.DrawFn, job: _Job, thread: int) -> None:
    name = draw(st.sampled_from(NAMES))
    if (thread, name) in job.opened:
        return  # the sketch tells a thread's opens apart by name
    there = name in job.names
    flags = draw(st.sampled_from(["r", "rw"] if there else ["w+create", "rw+create+excl"]))
    if there and draw(st.booleans()):
        flags = draw(st.sampled_from(["w+create+trunc", "rw+create"]))
    if not there:
        job.names[name] = len(job.sizes)
        job.sizes.append(0)
    inode = job.names[name]
    if "trunc" in flags:
        job.sizes[inode] = 0
    mode = {"r": 0, "w": 1, "rw": 2}[flags.split("+")[0]]
    job.write(thread, f"open {name} {flags}")
    job.opened[(thread, name)] = [inode, 0, mode]


def _write(draw: st.DrawFn, job: _Job, thread: int, name: str) -> None:
    state = job.opened[(thread, name)]
    at = state[1] if draw(st.integers(0, 4)) else draw(OFFSETS)
    length = draw(LENGTHS)
    job.write(thread, f"write {name} {at} {length}")
    state[1] = at + length
    if length:
        job.sizes[state[0]] = max(job.sizes[state[0]], at + length)


def _read(draw: st.DrawFn, job: _Job, thread: int, name: str) -> None:
    state = job.opened[(thread, name)]
    at = state[1] if draw(st.booleans()) else draw(OFFSETS)
    length = draw(LENGTHS)
    got = max(0, min(length, job.sizes[state[0]] - at))
    job.write(thread, f"read {name} {at} {length} -> {got}")
    state[1] = at + got


def _names(draw: st.DrawFn, job: _Job, thread: int, act: str) -> None:
    free = [n for n in job.names if not any(opened == n for _, opened in job.opened)]
    if not free:
        return
    name = draw(st.sampled_from(free))
    target = draw(st.sampled_from(NAMES))
    if act == "unlink":
        job.write(thread, f"unlink {name}")
        del job.names[name]
    elif target != name and not any(opened == target for _, opened in job.opened):
        job.write(thread, f"rename {name} {target}")
        job.names[target] = job.names.pop(name)

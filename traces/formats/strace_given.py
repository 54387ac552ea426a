"""Descriptors that calls have given, where the log does not tell when each call ended.

A log for each thread orders calls by their beginnings alone. The number that a call got may be one
that another thread freed after the beginning, and other threads may use it long before the next
line of its own thread.
"""

from __future__ import annotations

from dataclasses import dataclass

from iotrace.traces.formats.strace_call import NUMBER
from iotrace.traces.formats.strace_calls import GIVING
from iotrace.traces.formats.strace_lines import Kind, Line
from iotrace.traces.formats.strace_names import numbers_given
from iotrace.traces.formats.strace_state import Descriptor, Machine, Space


@dataclass(frozen=True)
class _Given:
    space: Space
    fd: int
    descriptor: Descriptor

    def place(self) -> None:
        self.space.descriptors[self.fd] = self.descriptor


class GivenDescriptors:
    """What the last call of each thread gave: as free a number as the calls of others allow.

    A number is given when its call begins. While another descriptor has it, the new one waits until
    that is closed, or until the next line of its thread, which proves that its call has ended; the
    other one, if its own call has not, then waits in turn.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._last: dict[int, list[_Given]] = {}
        self._held: dict[int, Descriptor | None] = {}

    def before(self, tid: int, line: Line) -> None:
        """Note that a line is to take effect."""
        for given in self._last.pop(tid, ()):
            given.place()
        descriptors = self._machine.space(tid).descriptors
        self._held = {fd: descriptors.get(fd) for fd in (*_given(line), *_ended(line))}

    def after(self, tid: int, line: Line) -> None:
        """Note that it has."""
        space = self._machine.space(tid)
        for fd in _given(line):
            held, new = self._held[fd], space.descriptors.get(fd)
            if new is None or new is held:
                continue
            if held is not None:
                space.descriptors[fd] = held
            self._last.setdefault(tid, []).append(_Given(space, fd, new))
        for fd in _ended(line):
            self._end(space, fd)

    def _end(self, space: Space, fd: int) -> None:
        held = self._held[fd]
        for tid, gifts in [*self._last.items()]:
            self._last[tid] = [gift for gift in gifts if gift.descriptor is not held]
        waiting = (gift for gifts in self._last.values() for gift in gifts)
        for gift in waiting:
            if gift.space is space and gift.fd == fd and fd not in space.descriptors:
                gift.place()


def _given(line: Line) -> list[int]:
    if line.kind is not Kind.WHOLE or line.name not in GIVING or line.duration_ns is not None:
        return []
    return numbers_given(line)


def _ended(line: Line) -> list[int]:
    """Return the descriptors that a line ends, whatever others it gives."""
    if line.name in ("dup2", "dup3") and line.result is not None:
        return [line.result]
    match = NUMBER.match(line.text) if line.name == "close" and line.kind is Kind.WHOLE else None
    return [int(match[0], 0)] if match else []

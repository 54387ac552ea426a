"""Paths behind symbolic links: a file object tells only where its links lead."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import defaultdict
from dataclasses import replace

from iotrace.capture.files import FileTable
from iotrace.capture.notes import Note, Notes


def by_opened_names(notes: Notes, files: FileTable) -> Notes:
    """Return the notes with the paths by which the job opened their files.

    A hook that is given a file object without an absolute name asks the kernel, which names no
    link; requests go by the path that was opened. What neither explains stays as it is.
    """
    opened = {files.paths[code]: code for code in files.names}
    strange = {note.path for note in notes.of("tensor") if note.path} - opened.keys()
    if not strange:
        return notes
    by_real: defaultdict[str, list[str]] = defaultdict(list)
    for path in opened:
        by_real[os.path.realpath(path)].append(path)
    real = {path: by_real.get(os.path.realpath(path), ()) for path in strange}

    def under_opened_name(note: Note) -> Note:
        names = real.get(note.path or "")
        if not names:
            return note

        def last_opened(path: str) -> int:
            times_ns = files.names[opened[path]].times_ns
            place = bisect_right(times_ns, note.end_ns)
            return place and times_ns[place - 1]

        return replace(note, fields={**note.fields, "path": max(names, key=last_opened)})

    return replace(notes, notes=tuple(map(under_opened_name, notes.notes)))

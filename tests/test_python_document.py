"""docs/python.md runs as it stands, from top to bottom."""

import re
import subprocess
import sys
from pathlib import Path

from iotrace.traces.reader import read_trace
from iotrace.traces.summary import summarize

DOCUMENT = (Path(__file__).parents[1] / "docs" / "python.md").read_text()


def test_the_examples_run_one_after_the_other(tmp_path: Path) -> None:
    """As a script in an empty folder; what they print and write is true."""
    script = "\n".join(re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL))
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    recorded = summarize(read_trace("corpus:dcp"))
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"('dcp',): {recorded.bytes_written:,} bytes in ")
    assert lines[-1] == f"0 {1 << 20}"
    assert any(line.endswith("] True") for line in lines), done.stdout
    result = read_trace(str(tmp_path / "result.parquet"))
    padding = result.metadata.extra["replay"]["replayed"]["padding_bytes"]
    for one, besides in ((read_trace(str(tmp_path / "writes.parquet")), 0), (result, padding)):
        assert summarize(one).bytes_written == recorded.bytes_written + besides

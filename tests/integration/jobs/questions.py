"""Jobs that people ask questions about, in miniature.

Usage: questions.py CASE FOLDER
"""

import io
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path


def tiny(folder: Path) -> None:
    """A thousand tensors of 4 KiB."""
    import torch

    torch.save({f"l{i}": torch.randn(32, 32) for i in range(1000)}, folder / "tiny.pt")


def view(folder: Path) -> None:
    """Ten numbers of a storage of 8 MiB."""
    import torch

    torch.save({"w": torch.randn(2 << 20)[:10]}, folder / "view.pt")


def limit(folder: Path) -> None:
    """A save that does not fit; who calls it sees `unexpected pos`."""
    import torch

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10 << 20, resource.RLIM_INFINITY))
    try:
        torch.save({f"l{i}": torch.randn(1 << 20) for i in range(4)}, folder / "limit.pt")
    except RuntimeError as error:
        assert "unexpected pos" in str(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def renamed(folder: Path) -> None:
    """Written under another name first."""
    import torch
    from safetensors.torch import save_file

    save_file({"w": torch.randn(1 << 20)}, folder / "model.safetensors")


def synced(folder: Path) -> None:
    """A sync after every write."""
    fd = os.open(folder / "log.bin", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    for _ in range(50):
        os.write(fd, bytes(65536))
        os.fsync(fd)
    os.close(fd)


def everything(folder: Path) -> None:
    """Two ranks that both read all of it."""
    import torch

    if "RANK" in os.environ:
        torch.load(folder / "all.pt")
        return
    torch.save({f"l{i}": torch.randn(1 << 18) for i in range(8)}, folder / "all.pt")
    ranks = [
        subprocess.Popen(
            [sys.executable, *sys.argv], env={**os.environ, "RANK": str(r), "WORLD_SIZE": "2"}
        )
        for r in range(2)
    ]
    assert not any(rank.wait() for rank in ranks)


def straggler(folder: Path) -> None:
    """Under torchrun: rank 1 comes a second late to its part of the save."""
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp

    dist.init_process_group("gloo")
    if dist.get_rank() == 1:
        write_data = dcp.FileSystemWriter.write_data

        def late(*given: object, **named: object) -> object:
            time.sleep(1)
            return write_data(*given, **named)

        dcp.FileSystemWriter.write_data = late
    dcp.save({f"r{dist.get_rank()}": torch.randn(512, 1024)}, checkpoint_id=folder / "dcp")
    dist.destroy_process_group()


class Pause:
    """Something to save that takes its time: it sleeps, or computes."""

    def __init__(self, computes: bool) -> None:
        self.computes = computes

    def __reduce__(self) -> tuple[object, ...]:
        end = time.monotonic() + 0.5
        if not self.computes:
            time.sleep(0.5)
        while time.monotonic() < end:
            pass
        return Pause, (self.computes,)


def sleeping(folder: Path) -> None:
    """A save that waits for something that is no file."""
    import torch

    torch.save({"w": torch.randn(1 << 18), "p": Pause(computes=False)}, folder / "sleeping.pt")


def computing(folder: Path) -> None:
    """A save that computes."""
    import torch

    torch.save({"w": torch.randn(1 << 18), "p": Pause(computes=True)}, folder / "computing.pt")


def loading(folder: Path) -> None:
    """A load of 64 MiB into memory, in the page cache too."""
    import torch

    torch.save({f"l{i}": torch.randn(1 << 20) for i in range(16)}, folder / "loading.pt")
    loaded = torch.load(folder / "loading.pt")
    assert len(loaded) == 16


def in_pieces(folder: Path) -> None:
    """torch.save writes into the file itself; see `in_one`."""
    import torch

    torch.save({f"l{i}": torch.randn(32, 32) for i in range(100)}, folder / "same.pt")


def in_one(folder: Path) -> None:
    """The same state under the same name, through a buffer."""
    import torch

    buffer = io.BytesIO()
    torch.save({f"l{i}": torch.randn(32, 32) for i in range(100)}, buffer)
    (folder / "same.pt").write_bytes(buffer.getbuffer())


def killed(folder: Path) -> None:
    """A save that is killed when it has written eight of 16 tensors."""
    import torch

    pid = os.fork()
    if not pid:
        with open(folder / "killed.pt", "wb", buffering=0) as file:
            torch.save({f"l{i}": torch.randn(1 << 18) for i in range(16)}, Mortal(file, 8 << 20))
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL


class Mortal:
    """A file whose process is killed once it holds some bytes."""

    def __init__(self, file: io.FileIO, most_bytes: int) -> None:
        self.file = file
        self.most_bytes = most_bytes

    def write(self, data: bytes) -> int:
        if self.file.tell() > self.most_bytes:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.file.write(data)

    def flush(self) -> None:
        pass


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]))

"""What a shared trace may say in clear: words of engines, systems and libraries, never of a site.

Everything here is published by somebody else. Whatever is not here is keyed or dropped.
"""

from __future__ import annotations

import re
from typing import Final

from iotrace.traces import counters


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Names that an engine gives its files whoever runs it.
ENGINE_NAMES: Final = re.compile(
    r"""
      __\d{1,6}_\d{1,6}\.distcp                       # torch.distributed.checkpoint
    | \.metadata(\.tmp)?
    | \.snapshot_metadata | batched | replicated | sharded    # TorchSnapshot
    | (pytorch_model|model|adapter_model|optimizer|shard|consolidated|diffusion_pytorch_model)
      [-_.](\d{1,3}|00\d{1,4}|\d{1,5}-of-\d{1,5})\.(safetensors|bin|pt|pth|json)   # no dates
    | (pytorch_model|model)\.(safetensors|bin)\.index\.json
    | (zero_pp_rank_\d{1,6}_)?mp_rank_\d{1,6}(_\d{1,6})?_(model|optim)_states\.pt   # DeepSpeed
    | bf16_zero_pp_rank_\d{1,6}_mp_rank_\d{1,6}_optim_states\.pt
    | layer_\d{1,6}-model_\d{1,6}-model_states\.pt
    | global_step\d{1,7}
    | mp_rank_\d{1,6}(_\d{1,6})? | iter_\d{7} | latest_checkpointed_iteration\.txt    # Megatron-LM
    | model_optim_rng\.pt | distrib_optim\.pt | common\.pt
    """,
    re.VERBOSE,
)

EXTENSIONS: Final = _words(
    """
    pt pth bin ckpt safetensors distcp tmp json yaml yml txt pkl pickle npy npz h5 hdf5 nc zarr
    index log csv parquet arrow tar gz zst lz4 part partial lock bak old new data idx dat db meta
    """
)

# Right after one of these a number counts checkpoints or parts, and is no account or project.
COUNTED: Final = _words(
    """
    step steps globalstep global epoch iter iteration checkpoint ckpt rank shard part chunk layer
    layers block model optim optimizer state states weight weights param params group bucket
    tensor version v save worker stage
    tp pp dp mp ep cp zero file expert
    """
)

DTYPE: Final = re.compile(
    r"(torch\.)?(bfloat|float|int|uint|complex|q?u?int|bool|f|i|u|bf|c)\d{0,3}"
    r"(_e\dm\d(fn)?(uz)?|x\d|x\d_e\dm\d\w{0,8})?|double|half|long|short|byte|char|str|bytes",
    re.IGNORECASE | re.ASCII,
)
DEVICE: Final = re.compile(
    r"(cpu|cuda|xpu|mps|meta|hpu|npu|xla|tpu|rocm|hip|mtia|gpu)(:\d{1,4})?", re.ASCII
)
# At the ends of spans, and of /proc/PID/io at the end of a process.
COUNTERS: Final = frozenset(counters.COUNTERS)
MACHINES: Final = _words("x86_64 aarch64 arm64 ppc64le s390x riscv64 loongarch64")
FILE_SYSTEMS: Final = _words(
    """
    ext2 ext3 ext4 xfs btrfs zfs f2fs bcachefs tmpfs ramfs overlay nfs nfs4 cifs smb3 lustre gpfs
    beegfs ceph fuse fuseblk fuse.sshfs fuse.s3fs fuse.mountpoint-s3 fuse.gcsfuse fuse.juicefs
    fuse.glusterfs glusterfs orangefs pvfs2 wekafs panfs daos fuse.daos virtiofs 9p vfat exfat ntfs
    squashfs erofs ubifs jfs reiserfs ocfs2 gfs2 hugetlbfs
    """
)
LIBRARIES: Final = _words(
    """
    torch numpy safetensors torchsnapshot datastates datastates-llm deepspeed transformers
    accelerate lightning pytorch-lightning megatron-core megatron-lm orbax-checkpoint jax flax
    tensorflow h5py zarr tensorstore torchtitan fairscale apex nemo-toolkit peft diffusers
    huggingface-hub huggingface_hub colossalai torchtune composer streaming pyarrow mpi4py
    """
)
MOUNT_OPTIONS: Final = re.compile(
    r"""
      rw | ro | (rel|no|strict|no?dir|lazy|nodir)atime | nodiratime | nosuid | nodev | noexec
    | sync | async | dirsync | discard(=async)? | nodiscard | largeio | (no)?barrier
    | dax(=\w{1,8})?
    | attr2 | inode64 | noquota | (no)?delalloc | errors=(remount-ro|continue|panic)
    | data=(ordered|writeback|journal) | stripe=\d{1,9} | (su|sw)(nit|idth)=\d{1,9}
    | logbufs=\d{1,4} | logbsize=\d{1,6}k? | allocsize=\d{1,12}[kmg]? | commit=\d{1,5}
    | compress(-force)?=\w{1,8}(:\d{1,2})? | (no)?space_cache(=v\d)? | ssd | nodatacow | nodatasum
    | vers=\d(\.\d)? | [rw]size=\d{1,9} | nconnect=\d{1,3} | max_connect=\d{1,3} | hard | soft
    | proto=(tcp|udp|rdma)6? | timeo=\d{1,6} | retrans=\d{1,4} | ac(reg|dir)(min|max)=\d{1,6}
    | sec=sys | (no)?ac | (no)?lock | local_lock=\w{1,6} | namlen=\d{1,4}
    | flock | localflock | lazystatfs | (no)?user_xattr | checksum | nochecksum
    | max_read=\d{1,9} | blksize=\d{1,7} | direct_io | kernel_cache | huge=\w{1,12}
    """,
    re.VERBOSE | re.ASCII,
)
VERSION: Final = re.compile(
    r"\d{1,4}(\.\d{1,5}){0,3}((a|b|rc|\.?dev|\.?post)\d{1,5})?(\+(cpu|cu\d{2,3}|rocm\d(\.\d){0,2}))?",
    re.ASCII,
)
_VERSION_START = re.compile(r"\d{1,4}(\.\d{1,5}){0,3}", re.ASCII)


def is_engine_name(component: str) -> bool:
    """Return whether a path's component is called so by an engine, whoever runs it.

    >>> is_engine_name("__0_0.distcp"), is_engine_name("model_00001-of-00004.safetensors")
    (True, True)
    >>> is_engine_name("alice.pt")
    False
    """
    return ENGINE_NAMES.fullmatch(component) is not None


def public_version(version: str, parts: int = 4) -> str:
    """Return the part of a version that its publisher gave it; empty if there is none.

    >>> public_version("2.13.0+cu128"), public_version("2.13.0+alice.7")
    ('2.13.0+cu128', '2.13.0')
    >>> public_version("6.8.0-45-acme", parts=2)
    '6.8'
    """
    if parts == 4 and VERSION.fullmatch(version):
        return version
    start = _VERSION_START.match(version)
    return ".".join(start.group().split(".")[:parts]) if start else ""

"""Save and load by DeepSpeed's fast engine, with the writer that needs no accelerator.

Usage: deepspeed_job.py FOLDER
"""

import os
import sys
from types import SimpleNamespace

import torch
from deepspeed.runtime.checkpoint_engine.fast_checkpoint_engine import FastCheckpointEngine
from deepspeed.runtime.model_checkpointing import constants
from deepspeed.runtime.model_checkpointing.data_parallel_writer_factory import (
    DataParallelWriterConfig,
)

os.chdir(sys.argv[1])
writer = {
    constants.CHECKPOINT_WRITER_TYPE: constants.CheckpointWriterType.PYTHON,
    constants.CHECKPOINT_IO_BUFFER_SIZE: 1 << 20,
    constants.CHECKPOINT_IO_BUFFER_DOUBLE: True,
    constants.CHECKPOINT_IO_MULTIPLIER: 1,
    constants.CHECKPOINT_IO_STATISTICS: False,
}
state = {"w": torch.randn(700, 300), "b": torch.randn(300)}
for name, is_zip in (("zip.pt", True), ("legacy.pt", False)):
    config = SimpleNamespace(
        checkpoint_config={
            constants.CHECKPOINT_SERIALIZATION: is_zip,
            constants.CHECKPOINT_WRITER: writer,
        },
        aio_config={},
    )
    ranks = DataParallelWriterConfig(
        world_size=1, rank=0, global_rank=0, local_rank=0, pure_dp=True
    )
    engine = FastCheckpointEngine(config, ranks, False)
    engine.save(state, name)
    assert torch.equal(engine.load(name)["w"], state["w"])

"""Save twice over one file, and load, as Lightning's users do. Usage: lightning_job.py FOLDER"""

import os
import sys

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset


class Model(lightning.LightningModule):
    """One layer, and an optimizer with two tensors of state for each of its own."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(300, 70)

    def training_step(self, batch, index):
        """Return a loss."""
        return self.layer(batch[0]).sum()

    def configure_optimizers(self):
        """Return what has state to save."""
        return torch.optim.Adam(self.parameters())


os.chdir(sys.argv[1])
model = Model()
trainer = lightning.Trainer(
    max_epochs=1,
    accelerator="cpu",
    devices=1,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(model, DataLoader(TensorDataset(torch.ones(8, 300)), batch_size=4))
trainer.save_checkpoint("model.ckpt")
trainer.save_checkpoint("model.ckpt")
again = Model.load_from_checkpoint("model.ckpt", weights_only=False)
assert torch.equal(again.layer.weight, model.layer.weight)

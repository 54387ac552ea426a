"""Save and load a 500 MB model the way a training script does."""

import sys

import torch


def model(layers: int = 8, width: int = 1024, vocabulary: int = 25_000) -> torch.nn.Module:
    """Return a GPT-shaped stack of about 125 million float32 parameters."""
    block = [
        torch.nn.TransformerEncoderLayer(width, 16, 4 * width, batch_first=True)
        for _ in range(layers)
    ]
    return torch.nn.Sequential(torch.nn.Embedding(vocabulary, width), *block)


if __name__ == "__main__":
    path = sys.argv[1]
    torch.save({"model": model().state_dict(), "step": 1000}, path)
    torch.load(path)

"""Public architectures by their published configuration, and the tensors of a training state."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

ITEM_BYTES = {"bfloat16": 2, "float32": 4}
# What Adam keeps for each parameter, in single precision.
OPTIMIZER_PARTS = ("master", "exp_avg", "exp_avg_sq")


class Tensor(NamedTuple):
    """One tensor of a state; `rows` is how many of its rows a rank holds, from `first_row` on."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    first_row: int = 0
    rows: int = 0

    @property
    def row_bytes(self) -> int:
        return math.prod(self.shape[1:]) * ITEM_BYTES[self.dtype]

    @property
    def length(self) -> int:
        return self.rows * self.row_bytes


@dataclass(frozen=True)
class Model:
    """A decoder of the Llama family: grouped-query attention and a gated feed-forward layer."""

    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    vocabulary: int
    tied: bool = False

    def parameters(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield names and shapes of the parameters, in the order of the module."""
        hidden, ffn = self.hidden, self.ffn
        kv = hidden // self.heads * self.kv_heads
        yield "model.embed_tokens.weight", (self.vocabulary, hidden)
        for layer in range(self.layers):
            for name, shape in (
                ("self_attn.q_proj", (hidden, hidden)),
                ("self_attn.k_proj", (kv, hidden)),
                ("self_attn.v_proj", (kv, hidden)),
                ("self_attn.o_proj", (hidden, hidden)),
                ("mlp.gate_proj", (ffn, hidden)),
                ("mlp.up_proj", (ffn, hidden)),
                ("mlp.down_proj", (hidden, ffn)),
                ("input_layernorm", (hidden,)),
                ("post_attention_layernorm", (hidden,)),
            ):
                yield f"model.layers.{layer}.{name}.weight", shape
        yield "model.norm.weight", (hidden,)
        if not self.tied:
            yield "lm_head.weight", (self.vocabulary, hidden)

    def parameter_count(self) -> int:
        """Return how many parameters there are."""
        return sum(math.prod(shape) for _, shape in self.parameters())


MODELS: Mapping[str, Model] = MappingProxyType(
    {
        "llama-3.2-3b": Model(28, 3072, 8192, 24, 8, 128256, tied=True),
        "llama-2-7b": Model(32, 4096, 11008, 32, 32, 32000),
        "mistral-7b": Model(32, 4096, 14336, 32, 8, 32000),
        "llama-3-8b": Model(32, 4096, 14336, 32, 8, 128256),
        "llama-2-13b": Model(40, 5120, 13824, 40, 40, 32000),
        "llama-3-70b": Model(80, 8192, 28672, 64, 8, 128256),
        "llama-3.1-405b": Model(126, 16384, 53248, 128, 8, 128256),
    }
)


def shard(model: Model, rank: int, ranks: int, scale: float, optimizer: bool) -> list[Tensor]:
    """Return the tensors of one rank: its rows of every tensor, as fully sharded training has them.

    Args:
        scale: what the first dimension of every tensor is multiplied with; at least one row.
        optimizer: whether the optimizer's state is saved with the weights.
    """
    found = []
    kinds = [("", "bfloat16"), *((part, "float32") for part in OPTIMIZER_PARTS if optimizer)]
    for part, dtype in kinds:
        for name, (first, *rest) in model.parameters():
            total = max(round(first * scale), 1)
            size = -(-total // ranks)
            begin = min(rank * size, total)
            rows = min(size, total - begin)
            if rows:
                full = f"optimizer.{part}.{name}" if part else name
                found.append(Tensor(full, dtype, (total, *rest), begin, rows))
    return found

"""DTensor's parallel styles: tensor and sequence parallelism as parallelize_module sets them up."""

from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

BATCH, SEQUENCE, WIDTH, HIDDEN, VOCABULARY, HEADS = 4, 16, 64, 256, 512, 8


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class NormMLP(MLP):
    """The norm is an RMS norm: one weight per norm, so one gradient."""

    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(WIDTH)

    def forward(self, x):
        return super().forward(self.norm(x))


def freeze(*modules):
    for module in modules:
        module.requires_grad_(False)


def step(run, model, loss_of, optimizer=None):
    with run.phase("forward"):
        loss = loss_of(model)
    with run.phase("backward"):
        loss.backward()
    if optimizer:
        with run.phase("step"):
            optimizer.step()


def mean_square(x):
    return lambda model: model(x).square().mean()


def mlp(run, x_grad, frozen=(), layers=1, up=ColwiseParallel, down=RowwiseParallel, local=False):
    mesh = run.mesh()
    model = nn.Sequential(*(MLP() for _ in range(layers)))
    for block in model:
        parallelize_module(block, mesh["tp"], {"up": up(), "down": down()})
        freeze(*(getattr(block, name) for name in frozen))
    x = local_sequence(run, x_grad) if local else torch.randn(BATCH, SEQUENCE, WIDTH, requires_grad=x_grad)
    step(run, model, mean_square(x))


def sequence_column():
    return ColwiseParallel(input_layouts=Shard(1))


def gathered_column():
    return ColwiseParallel(output_layouts=Replicate())


def slicing_row():
    return RowwiseParallel(input_layouts=Replicate())


SEQUENCE_PLAN = {
    "norm": SequenceParallel(),
    "up": ColwiseParallel(input_layouts=Shard(1)),
    "down": RowwiseParallel(output_layouts=Shard(1)),
}


def local_sequence(run, grad=False):
    return torch.randn(BATCH, SEQUENCE // run.log.axes["tp"], WIDTH, requires_grad=grad)


def sequence_mlp(run, frozen=()):
    mesh = run.mesh()
    model = parallelize_module(NormMLP(), mesh["tp"], SEQUENCE_PLAN)
    freeze(*(getattr(model, name) for name in frozen))
    live = [p for p in model.parameters() if p.requires_grad]
    step(run, model, mean_square(local_sequence(run)), torch.optim.SGD(live, lr=0.1, foreach=False))


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids):
        return self.head(self.embedding(ids))


def tokens():
    return torch.randint(VOCABULARY, (BATCH, SEQUENCE))


def vocabulary_loss(run, gathered):
    """The logits stay split over the vocabulary and the loss is computed on the parts, or they are gathered."""
    mesh = run.mesh()
    split = ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)
    head = ColwiseParallel(output_layouts=Replicate()) if gathered else split
    plan = {"embedding": RowwiseParallel(input_layouts=Replicate()), "head": head}
    model = parallelize_module(LanguageModel(), mesh["tp"], plan)
    ids, labels = tokens(), tokens()
    with nullcontext() if gathered else loss_parallel():
        step(run, model, lambda m: F.cross_entropy(m(ids).flatten(0, 1), labels.flatten()))


def sequence_embedding(run):
    mesh = run.mesh()
    table = nn.Embedding(VOCABULARY, WIDTH)
    plan = RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1))
    step(run, parallelize_module(table, mesh["tp"], plan), mean_square(tokens()))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x):
        q, k, v = (heads(w(x)) for w in (self.wq, self.wk, self.wv))
        return self.wo(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


def heads(x):
    return x.unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2)


def attention(run, prepared):
    """Three column layers read one input: each wraps it by itself, or PrepareModuleInput wraps it once for all."""
    mesh = run.mesh()
    columns = {name: ColwiseParallel() for name in ("wq", "wk", "wv")}
    model = parallelize_module(Attention(), mesh["tp"], {**columns, "wo": RowwiseParallel()})
    if prepared:
        once = PrepareModuleInput(input_layouts=(Replicate(),), desired_input_layouts=(Replicate(),))
        parallelize_module(model, mesh["tp"], once)
    step(run, model, mean_square(torch.randn(BATCH, SEQUENCE, WIDTH, requires_grad=True)))


class SwiGLU(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w3 = (nn.Linear(WIDTH, HIDDEN, bias=False) for _ in range(2))
        self.w2 = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.ffn_norm = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.attention, self.feed_forward = Attention(), SwiGLU()

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.ffn_norm(x))


def gather_input():
    return PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))


BLOCK_PLAN = {
    "attention_norm": SequenceParallel(),
    "attention": gather_input(),
    "attention.wq": ColwiseParallel(),
    "attention.wk": ColwiseParallel(),
    "attention.wv": ColwiseParallel(),
    "attention.wo": RowwiseParallel(output_layouts=Shard(1)),
    "ffn_norm": SequenceParallel(),
    "feed_forward": gather_input(),
    "feed_forward.w1": ColwiseParallel(),
    "feed_forward.w3": ColwiseParallel(),
    "feed_forward.w2": RowwiseParallel(output_layouts=Shard(1)),
}


def llama_block(run):
    """One block as torchtitan plans it: sequence parallel, one gathered input for q, k, v and one for w1, w3."""
    mesh = run.mesh()
    model = parallelize_module(Block(), mesh["tp"], BLOCK_PLAN)
    x = local_sequence(run, grad=True)
    # Norm outputs stay DTensors and PrepareModuleInput wraps plain tensors, so the residual stays a plain tensor.
    step(run, model, mean_square(x), torch.optim.SGD(model.parameters(), lr=0.1, foreach=False))

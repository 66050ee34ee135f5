"""The programs of the two notes that the product's tables come from, rebuilt from their text: the notes show the parts
that communicate, the rest (data, loss where they name none) was filled in here. tp_mlp has the copy that note 2's own
stand-alone test leaves out; its input needs no gradient, so nothing runs there either way.

Note 1 uses torch.distributed.nn.functional, whose collectives differentiate themselves ("per_rank"); note 2 writes the
Megatron pair of autograd functions ("global").
"""

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as dist_nn
import torch.nn.functional as F
from torch import nn


def average_gradients(run, parameters, group):
    with run.phase("grad_sync"):
        for parameter in parameters:
            dist.all_reduce(parameter.grad, group=group)
            parameter.grad.div_(dist.get_world_size(group))


# Note 1: four ranks, rank = inner + 2 * outer.


def tp_shards(width=512, hidden=1024, tp=2):
    return nn.Parameter(torch.randn(hidden // tp, width)), nn.Parameter(torch.randn(width, hidden // tp))


def tp_all_reduce(run, batch):
    tp, dp = run.group("tp"), run.group("dp")
    w1, w2 = tp_shards()
    x = torch.randn(batch, 512)
    with run.phase("forward"):
        y = dist_nn.all_reduce(F.linear(F.gelu(F.linear(x, w1)), w2), group=tp)
        loss = y.square().mean()
    with run.phase("backward"):
        loss.backward()
    average_gradients(run, (w1, w2), dp)


def tp_sequence(run, batch):
    tp, dp = run.group("tp"), run.group("dp")
    w1, w2 = tp_shards()
    x = torch.randn(batch, 512)
    with run.phase("forward"):
        partial = F.linear(F.gelu(F.linear(x, w1)), w2)
        chunks = [z.contiguous() for z in partial.chunk(2, dim=0)]
        shard = dist_nn.reduce_scatter(torch.empty_like(chunks[0]), chunks, group=tp)
        loss = torch.cat(dist_nn.all_gather(shard, group=tp), dim=0).square().mean()
    with run.phase("backward"):
        loss.backward()
    average_gradients(run, (w1, w2), dp)


def pipeline(run, microbatches, batch=64, width=512, hidden=1024):
    pp, dp = run.group("pp"), run.group("dp")
    rows = batch // microbatches
    stage = first_stage if run.at["pp"] == 0 else last_stage
    weight = nn.Parameter(torch.randn(*((hidden, width) if stage is first_stage else (width, hidden))) * 0.01)
    stage(run, pp, weight, rows, microbatches)
    average_gradients(run, (weight,), dp)


def first_stage(run, pp, weight, rows, microbatches):
    peer, saved = run.rank + 1, []
    for i in range(microbatches):
        with run.phase("forward"), run.microbatch(i):
            saved.append(F.gelu(F.linear(torch.randn(rows, weight.shape[1]), weight)))
            dist.send(saved[i].detach(), dst=peer, group=pp)
    for i in reversed(range(microbatches)):
        with run.phase("backward"), run.microbatch(i):
            gradient = torch.empty_like(saved[i])
            dist.recv(gradient, src=peer, group=pp)
            saved[i].backward(gradient)


def last_stage(run, pp, weight, rows, microbatches):
    peer, saved = run.rank - 1, []
    for i in range(microbatches):
        with run.phase("forward"), run.microbatch(i):
            h = torch.empty(rows, weight.shape[1])
            dist.recv(h, src=peer, group=pp)
            h.requires_grad_(True)
            out = F.linear(h, weight)
            saved.append((h, F.mse_loss(out, torch.randn_like(out)) / microbatches))
    for i in reversed(range(microbatches)):
        with run.phase("backward"), run.microbatch(i):
            h, loss = saved[i]
            loss.backward()
            dist.send(h.grad, dst=peer, group=pp)


def experts(run, counts, input_grad, width=512):
    """counts[e]: the rows that every rank sends to expert e."""
    ep, expert_dp = run.group("ep"), run.group("edp")
    weight = nn.Parameter(torch.randn(width, width))
    packed = torch.randn(sum(counts), width, requires_grad=input_grad)
    arriving = [counts[run.at["ep"]]] * len(counts)
    with run.phase("forward"):
        received = torch.empty(sum(arriving), width)
        received = dist_nn.all_to_all_single(received, packed, arriving, counts, group=ep)
        out = F.gelu(F.linear(received, weight))
        loss = dist_nn.all_to_all_single(torch.empty_like(packed), out, counts, arriving, group=ep).square().mean()
    with run.phase("backward"):
        loss.backward()
    average_gradients(run, (weight,), expert_dp)


# Note 2: rank = 4 d + 2 p + t.

BATCH, SEQUENCE, HIDDEN, INTERMEDIATE = 8, 16, 32, 64


class CopyToTensorParallel(torch.autograd.Function):
    """Megatron's f: nothing forward, an all-reduce of the gradient backward."""

    @staticmethod
    def forward(ctx, tensor, group):
        ctx.group = group
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient, group=ctx.group)
        return gradient, None


class ReduceFromTensorParallel(torch.autograd.Function):
    """Megatron's g: an all-reduce forward, nothing backward."""

    @staticmethod
    def forward(ctx, tensor, group):
        result = tensor.clone()
        dist.all_reduce(result, group=group)
        return result

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


copy_to, reduce_from = CopyToTensorParallel.apply, ReduceFromTensorParallel.apply


def layer_parameters(intermediate):
    shapes = ((intermediate, HIDDEN), (intermediate,), (HIDDEN, intermediate), (HIDDEN,))
    return [nn.Parameter(torch.randn(*shape) * 0.1) for shape in shapes]


def layer(x, parameters, tp=None):
    w1, b1, w2, b2 = parameters
    x = copy_to(x, tp) if tp else x
    y = F.linear(F.gelu(F.linear(x, w1, b1)), w2)
    return (reduce_from(y, tp) if tp else y) + b2


def layers(x, stack, tp=None):
    for parameters in stack:
        x = layer(x, parameters, tp)
    return x


def inputs(grad=False):
    return torch.randn(BATCH, SEQUENCE, HIDDEN, requires_grad=grad)


def mean_square(y):
    return F.mse_loss(y, torch.randn_like(y))


def tp_mlp(run):
    tp = run.group("tp")
    stack = [layer_parameters(INTERMEDIATE // 2)]
    with run.phase("forward"):
        loss = mean_square(layers(inputs(), stack, tp))
    with run.phase("backward"):
        loss.backward()


def dp_mlp(run):
    dp = run.group("dp")
    stack = [layer_parameters(INTERMEDIATE) for _ in range(4)]
    with run.phase("forward"):
        loss = mean_square(layers(inputs(), stack))
    with run.phase("backward"):
        loss.backward()
    average_gradients(run, [p for parameters in stack for p in parameters], dp)


def pp_4layers(run):
    two_stages(run, [layer_parameters(INTERMEDIATE) for _ in range(2)], run.group("pp"), None, False)


def tp_pp_dp(run, x_grad):
    tp, pp, dp = (run.group(axis) for axis in ("tp", "pp", "dp"))
    stack = [layer_parameters(INTERMEDIATE // 2) for _ in range(2)]
    two_stages(run, stack, pp, tp, x_grad)
    average_gradients(run, [p for parameters in stack for p in parameters], dp)


def two_stages(run, stack, pp, tp, x_grad):
    here, there = dist.get_rank(pp), 1 - dist.get_rank(pp)
    peer = dist.get_process_group_ranks(pp)[there]
    with run.phase("forward"):
        x = inputs(x_grad) if here == 0 else received_like(inputs(), peer, pp).requires_grad_(True)
        y = layers(x, stack, tp)
        dist.send(y.detach(), dst=peer, group=pp) if here == 0 else None
    with run.phase("backward"):
        if here == 0:
            y.backward(received_like(y, peer, pp))
        else:
            mean_square(y).backward()
            dist.send(x.grad, dst=peer, group=pp)


def received_like(tensor, peer, group):
    out = torch.empty_like(tensor, requires_grad=False)
    dist.recv(out, src=peer, group=group)
    return out

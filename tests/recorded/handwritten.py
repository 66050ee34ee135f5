"""Parallel layers that people write by hand over functional collectives: Ulysses, context parallelism (gathered, and as a
ring of messages), grouped-query attention, experts behind a router, and activation checkpointing around a tensor-parallel block.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed._functional_collectives import all_gather_tensor_autograd, all_to_all_single_autograd
from torch.utils.checkpoint import checkpoint

from notes import average_gradients, copy_to, reduce_from

BATCH, SEQUENCE, WIDTH, HEADS = 2, 16, 64, 8
HEAD = WIDTH // HEADS


def weight(rows, columns=WIDTH):
    return nn.Parameter(torch.randn(rows, columns) * 0.1)


def attend(q, k, v):
    """Inputs and output [sequence, batch, heads, head]."""
    q, k, v = (t.permute(1, 2, 0, 3) for t in (q, k, v))
    out = F.scaled_dot_product_attention(q, k, v, enable_gqa=q.shape[1] != k.shape[1])
    return out.permute(2, 0, 1, 3)


def split_heads(x):
    return x.unflatten(-1, (-1, HEAD))


def scatter_heads(x, group):
    """[s/n, b, h, d] to [s, b, h/n, d]: one all-to-all that sends each member its heads of the rows held here."""
    n = dist.get_world_size(group)
    parts = torch.cat(x.chunk(n, dim=2))
    return all_to_all_single_autograd(parts.contiguous(), None, None, group).contiguous()


def gather_heads(x, group):
    """[s, b, h/n, d] to [s/n, b, h, d]."""
    n = dist.get_world_size(group)
    return torch.cat(all_to_all_single_autograd(x.contiguous(), None, None, group).chunk(n), dim=2)


def ulysses(run):
    sp = run.group("sp")
    wq, wk, wv, wo = (weight(WIDTH) for _ in range(4))
    x = torch.randn(SEQUENCE // run.log.axes["sp"], BATCH, WIDTH, requires_grad=True)
    with run.phase("forward"):
        q, k, v = (scatter_heads(split_heads(F.linear(x, w)), sp) for w in (wq, wk, wv))
        loss = F.linear(gather_heads(attend(q, k, v), sp).flatten(2), wo).square().mean()
    with run.phase("backward"):
        loss.backward()
    average_gradients(run, (wq, wk, wv, wo), sp)


def context_parallel(run):
    cp = run.group("cp")
    wq, wk, wv, wo = (weight(WIDTH) for _ in range(4))
    x = torch.randn(SEQUENCE // run.log.axes["cp"], BATCH, WIDTH, requires_grad=True)
    with run.phase("forward"):
        q = split_heads(F.linear(x, wq))
        k, v = (all_gather_tensor_autograd(split_heads(F.linear(x, w)), 0, cp) for w in (wk, wv))
        loss = F.linear(attend(q, k, v).flatten(2), wo).square().mean()
    with run.phase("backward"):
        loss.backward()
    average_gradients(run, (wq, wk, wv, wo), cp)


def pass_on(buffer, step, group):
    """Sends to the member `step` places on and returns what comes from the other side; even members send first."""
    n, me, arrived = dist.get_world_size(group), dist.get_rank(group), torch.empty_like(buffer)
    there, here = (dist.get_global_rank(group, (me + s) % n) for s in (step, -step))
    calls = [lambda: dist.isend(buffer, there, group), lambda: dist.irecv(arrived, here, group)]
    for work in [call() for call in (calls if me % 2 == 0 else reversed(calls))]:
        work.wait()
    return arrived


class Ring(torch.autograd.Function):
    """What Transformer Engine's AttnFuncWithCPAndKVP2P sends: keys and values pass by, and their gradients behind them."""

    @staticmethod
    def forward(ctx, q, k, v, group):
        kv, outs, sums = torch.stack((k, v)), [], []
        for left in reversed(range(dist.get_world_size(group))):
            seen = scores(q, kv[0])
            sums.append(seen.logsumexp(-1))
            outs.append(torch.einsum("bhst,tbhd->sbhd", seen.softmax(-1), kv[1]))
            kv = pass_on(kv, 1, group) if left else kv
        total = torch.stack(sums).logsumexp(0)
        out = sum(o * by_row((s - total).exp()) for o, s in zip(outs, sums))
        ctx.save_for_backward(q, kv, out, total)
        ctx.group = group
        return out

    @staticmethod
    def backward(ctx, dout):
        q, kv, out, total = ctx.saved_tensors
        last = dist.get_world_size(ctx.group) - 1
        dq, dkv, delta = 0, None, torch.einsum("sbhd,sbhd->bhs", out, dout)[..., None]
        for i in range(last + 1):
            arrived = pass_on(kv if i == 0 else dkv if i == last else torch.stack((kv, dkv)), -1, ctx.group)
            p = (scores(q, kv[0]) - total[..., None]).exp()
            ds = p * (torch.einsum("sbhd,tbhd->bhst", dout, kv[1]) - delta) / HEAD**0.5
            dq = dq + torch.einsum("bhst,tbhd->sbhd", ds, kv[0])
            mine = [torch.einsum("bhst,sbhd->tbhd", *pair) for pair in ((ds, q), (p, dout))]
            dkv = torch.stack(mine) + (0 if i == 0 else arrived if i == last else arrived[1])
            kv = arrived if i == 0 else arrived[0]
        return dq, dkv[0], dkv[1], None


def scores(q, k):
    return torch.einsum("sbhd,tbhd->bhst", q, k) / HEAD**0.5


def by_row(factors):
    return factors.permute(2, 0, 1)[..., None]


def ring(run):
    cp = run.group("cp")
    wq, wk, wv, wo = (weight(WIDTH) for _ in range(4))
    x = torch.randn(SEQUENCE // run.log.axes["cp"], BATCH, WIDTH, requires_grad=True)
    with run.phase("forward"):
        q, k, v = (split_heads(F.linear(x, w)) for w in (wq, wk, wv))
        out = Ring.apply(q, k, v, cp)
        loss = F.linear(out.flatten(2), wo).square().mean()
    q.retain_grad(), k.retain_grad(), v.retain_grad()
    with run.phase("backward"):
        loss.backward()
    average_gradients(run, (wq, wk, wv, wo), cp)
    check_ring(q, k, v, out, wo, cp)


def check_ring(q, k, v, out, wo, group):
    """The same with everything gathered: outputs and gradients are equal."""
    n, me = dist.get_world_size(group), dist.get_rank(group)
    whole = []
    for t in (q, k, v):
        parts = [torch.empty_like(t) for _ in range(n)]
        dist.all_gather(parts, t.detach().contiguous(), group=group)
        whole.append(torch.cat(parts).requires_grad_())
    heads = attend(*whole)
    weights = [torch.empty_like(wo) for _ in range(n)]
    dist.all_gather(weights, wo.detach(), group=group)
    sum(F.linear(o.flatten(2), w).square().mean() for o, w in zip(heads.chunk(n), weights)).backward()
    torch.testing.assert_close(out, heads.chunk(n)[me])
    for t, gathered in zip((q, k, v), whole):
        torch.testing.assert_close(t.grad, gathered.grad.chunk(n)[me])


def grouped_query(run, kv_heads=2):
    """tp = kv * rep ranks, fewer key and value heads than ranks: each of the kv heads is held by rep ranks."""
    kv, rep = run.log.axes["kv"], run.log.axes["rep"]
    kv_group, rep_group, tp = run.group("kv"), run.group("rep"), run.group("kv", "rep")
    wq, wo = weight(WIDTH // (kv * rep)), weight(WIDTH, WIDTH // (kv * rep))
    wk, wv = (weight(kv_heads * HEAD // kv) for _ in range(2))
    x = torch.randn(SEQUENCE, BATCH, WIDTH, requires_grad=True)
    with run.phase("forward"):
        q = split_heads(F.linear(copy_to(x, tp), wq))
        shared = copy_to(x, kv_group)
        k, v = (split_heads(copy_to(F.linear(shared, w), rep_group)) for w in (wk, wv))
        loss = reduce_from(F.linear(attend(q, k, v).flatten(2), wo), tp).square().mean()
    with run.phase("backward"):
        loss.backward()


def routed_experts(run, counts, x_grad, gate_grad, expert_grad):
    """The dispatch and combine pair; the gate multiplies the combined rows, as in Megatron 0.8 and torchtitan."""
    ep, n = run.group("ep"), run.log.axes["ep"]
    expert, gate = weight(WIDTH).requires_grad_(expert_grad), weight(n).requires_grad_(gate_grad)
    x = torch.randn(sum(counts), WIDTH, requires_grad=x_grad)
    arriving = [counts[run.at["ep"]]] * n
    with run.phase("forward"):
        scores = F.linear(x, gate).softmax(-1).amax(-1, keepdim=True)
        rows = all_to_all_single_autograd(x, arriving, counts, ep)
        out = F.gelu(F.linear(rows, expert))
        loss = (all_to_all_single_autograd(out, counts, arriving, ep) * scores).square().mean()
    with run.phase("backward"):
        loss.backward()


def checkpointed_block(run, reentrant, hidden=128):
    """Two column and row pairs, as attention and MLP are, inside one checkpoint."""
    tp, n = run.group("tp"), run.log.axes["tp"]
    pairs = [(weight(hidden // n), weight(WIDTH, hidden // n)) for _ in range(2)]
    x = torch.randn(SEQUENCE, BATCH, WIDTH, requires_grad=True)

    def block(x):
        with run.recomputing():
            for up, down in pairs:
                x = reduce_from(F.linear(F.gelu(F.linear(copy_to(x, tp), up)), down), tp)
            return x

    with run.phase("forward"):
        loss = checkpoint(block, x, use_reentrant=reentrant).square().mean()
    with run.phase("backward"):
        loss.backward()

"""Data parallelism by PyTorch's wrappers: FSDP2, HSDP, DDP, and each of them over tensor parallelism."""

from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.fsdp._fully_shard import _fsdp_param_group as parameter_group
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from notes import copy_to, reduce_from
from tensor_parallel import BATCH, HIDDEN, MLP, SEQUENCE, WIDTH, mean_square, step


class CpuStream(torch.cpu.Stream):
    """FSDP2 of torch 2.6 asks more of a stream than the CPU's stand-in has. On a CPU all of it is nothing."""

    def record_event(self, event=None):
        return event or torch.cpu.Event()

    def wait_event(self, event):
        pass


def keeping_versions(copy_out):
    """On a CPU the copy out of a gather counts as a change of the parameter, which autograd then refuses; on CUDA it
    does not. So the version counters are put back."""

    def copy(result, parameters, group):
        kept = [(t, t._version) for p in parameters for t in getattr(p, "all_gather_outputs", [])]
        copy_out(result, parameters, group)
        for tensor, version in kept:
            torch._C._autograd._unsafe_set_version_counter(tensor, version)

    return copy


def on_cpu():
    """FSDP2 of torch 2.6 is written for CUDA. None of this changes which collectives it issues."""
    torch.cpu.Stream = CpuStream
    torch.cpu.current_stream = torch.cuda.current_stream = lambda device=None: CpuStream()
    parameter_group.foreach_all_gather_copy_out = keeping_versions(parameter_group.foreach_all_gather_copy_out)


class TwoLinears(nn.Module):
    """Of different sizes, so that the record shows which unit a gather or a reduction belongs to."""

    def __init__(self, hidden=HIDDEN, head=False):
        super().__init__()
        self.up = nn.Linear(WIDTH, hidden, bias=False)
        self.down = nn.Linear(hidden, WIDTH // 2, bias=False)
        self.head = nn.Linear(WIDTH // 2, WIDTH // 4, bias=False) if head else nn.Identity()  # the root unit's own

    def forward(self, x):
        return self.head(self.down(F.gelu(self.up(x))))


def shard(model, mesh, units, **options):
    for name in units:
        fully_shard(getattr(model, name), mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def fsdp(run, reshard=True, x_grad=False, frozen=(), microbatches=1, **shape):
    on_cpu()
    mesh, model = run.mesh(), TwoLinears(**shape)
    for name in frozen:
        getattr(model, name).requires_grad_(False)
    shard(model, mesh, ("up", "down"), reshard_after_forward=reshard)
    run.synchronises(*run.log.axes)
    for i in range(microbatches):
        model.set_requires_gradient_sync(i + 1 == microbatches)
        with run.microbatch(i):
            step(run, model, mean_square(torch.randn(BATCH, WIDTH, requires_grad=x_grad)))


class TiedEnds(nn.Module):
    """An embedding whose table is the head's weight, around two linears."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(2 * WIDTH, WIDTH)
        self.first = nn.Linear(WIDTH, WIDTH, bias=False)
        self.second = nn.Linear(WIDTH, WIDTH, bias=False)
        self.norm = nn.RMSNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(self.norm(self.second(F.gelu(self.first(self.embed(ids))))))


def fsdp_tied(run):
    """As torchtitan 0.3 shards tied models: embedding, norm and head are one unit, which is not taken apart after the forward."""
    on_cpu()
    mesh, model = run.mesh(), TiedEnds()
    for block in (model.first, model.second):
        fully_shard(block, mesh=mesh)
    fully_shard([model.embed, model.norm, model.head], mesh=mesh, reshard_after_forward=False)
    fully_shard(model, mesh=mesh)
    run.synchronises(*run.log.axes)
    step(run, model, mean_square(torch.randint(2 * WIDTH, (BATCH,))))


def fsdp_tensor_parallel(run):
    on_cpu()
    mesh = run.mesh()
    model = parallelize_module(MLP(), mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    shard(model, mesh["dp"], ("up", "down"))
    run.synchronises("dp")
    step(run, model, mean_square(torch.randn(BATCH, SEQUENCE, WIDTH)))


def wide_stack(count=10, width=1024):
    return nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(count)))


def ddp(run, iteration, frozen=(), microbatches=1, buffers=0):
    """The wrapper regroups its buckets in the forward of iteration 2: iterations before the recorded one run unmarked."""
    group, model = run.group("dp"), wide_stack()
    for i in frozen:
        model[i].requires_grad_(False)
    if buffers:
        model.register_buffer("numbers", torch.zeros(buffers))
    model = DistributedDataParallel(model, process_group=group)
    run.synchronises("dp")
    for _ in range(iteration - 1):
        model(torch.randn(2, 1024)).square().mean().backward()
    for i in range(microbatches):
        last = i + 1 == microbatches
        with run.microbatch(i), nullcontext() if last else model.no_sync():
            step(run, model, mean_square(torch.randn(2, 1024)))


class ShardedMLP(nn.Module):
    """Megatron's column and row pair over plain tensors, which DDP can wrap."""

    def __init__(self, tp, size):
        super().__init__()
        self.tp = tp
        self.up = nn.Linear(WIDTH, HIDDEN // size, bias=False)
        self.down = nn.Linear(HIDDEN // size, WIDTH, bias=False)

    def forward(self, x):
        return reduce_from(self.down(F.gelu(self.up(copy_to(x, self.tp)))), self.tp)


def ddp_tensor_parallel(run):
    tp, dp = run.group("tp"), run.group("dp")
    model = nn.Sequential(*(ShardedMLP(tp, run.log.axes["tp"]) for _ in range(2)))
    model = DistributedDataParallel(model, process_group=dp)
    run.synchronises("dp")
    step(run, model, mean_square(torch.randn(BATCH, SEQUENCE, WIDTH)))

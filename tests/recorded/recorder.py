"""Runs a PyTorch program on every rank of a small world and writes down each collective that it issues.

Knows: how a process group sees its calls, how a call is put into our words, how the ranks of a world are run.
Does not know: any model. Those are functions that take a `Run`; the table in record.py names them.

Every group that a program makes (new_group, DeviceMesh, DDP, FSDP, pipelining) is a `RecordingGroup`. It overrides the methods
of c10d's ProcessGroup, which is where Python calls, functional collectives, DTensor, and C++ callers such as DDP's
reducer and autograd's backward all end, so nothing that runs can go around the record.
"""

import contextlib
import math
import multiprocessing
import os
import tempfile
import warnings

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _create_work_from_future
from torch.distributed import distributed_c10d as c10d
from torch.distributed.device_mesh import init_device_mesh

SIMULATED = "simulated"
GLOO = "gloo"

HOW = {
    SIMULATED: "Each rank ran alone in its own process. Its process groups move no data: they only fill the outputs. "
    "The backend name reads nccl, so the branches that PyTorch takes on NCCL ran.",
    GLOO: "One process per rank over gloo: real data moved, and the backend name reads gloo.",
}

REDUCTIONS = {"all_reduce", "reduce_scatter", "reduce"}


class Log:
    """One rank's events in the order of issue. Outside the phases that a program marks nothing is written."""

    def __init__(self, rank, axes):
        self.rank, self.axes, self.sync_axes = rank, axes, ()
        self.events = []
        self.now = {}  # phase, and microbatch and batch where they are known
        self.batches = 0

    @contextlib.contextmanager
    def at(self, **marks):
        before, self.now = self.now, {**self.now, **marks}
        try:
            yield
        finally:
            self.now = before

    @contextlib.contextmanager
    def batch(self):
        """P2P operations that one batch_isend_irecv launches together: one kernel on NCCL."""
        with self.at(batch=self.batches):
            self.batches += 1
            yield

    def add(self, op, ranks, inputs, outputs, **more):
        if not self.now.get("phase"):
            return
        axes = varying_axes(ranks, self.axes)
        event = {"order": len(self.events), "phase": self.phase_of(op, axes), "op": op, "axes": axes, "group": ranks}
        if event["phase"] != self.now["phase"]:
            event["during"] = self.now["phase"]
        event["input_elements"], event["output_elements"] = elements(inputs), elements(outputs)
        event["dtype"] = str((inputs + outputs)[0].dtype).removeprefix("torch.")
        event.update({key: self.now[key] for key in ("microbatch", "chunk", "batch") if key in self.now})
        event.update({key: value for key, value in more.items() if value is not None})
        self.events.append(event)

    def phase_of(self, op, axes):
        """A data-parallel wrapper reduces from inside backward: that is gradient synchronisation all the same."""
        if self.now["phase"] == "backward" and op in REDUCTIONS and axes and set(axes) <= set(self.sync_axes):
            return "grad_sync"
        return self.now["phase"]


def elements(tensors):
    return sum(t.numel() for t in tensors)


def coordinates(rank, axes):
    """Coordinates of a rank on axes listed slowest first: {"dp": 2, "tp": 2} gives rank 1 (dp 0, tp 1)."""
    out = {}
    for name, size in reversed(axes.items()):
        rank, out[name] = divmod(rank, size)
    return out


def varying_axes(ranks, axes):
    places = [coordinates(rank, axes) for rank in ranks]
    return [name for name in axes if len({place[name] for place in places}) > 1]


# What each method of a ProcessGroup is in our words, and where its arguments hold the inputs and the outputs.


def flat(value):
    return [value] if isinstance(value, torch.Tensor) else [t for part in value for t in flat(part)]


def in_place(args):
    return flat(args[0]), flat(args[0])


def out_then_in(args):
    return flat(args[1]), flat(args[0])


def sent(args):
    return flat(args[0]), []


def received(args):
    return [], flat(args[0])


METHODS = {
    "allreduce": ("all_reduce", in_place),
    "allreduce_coalesced": ("all_reduce", in_place),
    "allgather": ("all_gather", out_then_in),
    "allgather_coalesced": ("all_gather", out_then_in),
    "_allgather_base": ("all_gather", out_then_in),
    "allgather_into_tensor_coalesced": ("all_gather", out_then_in),
    "reduce_scatter": ("reduce_scatter", out_then_in),
    "_reduce_scatter_base": ("reduce_scatter", out_then_in),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter", out_then_in),
    "alltoall": ("all_to_all", out_then_in),
    "alltoall_base": ("all_to_all", out_then_in),
    "broadcast": ("broadcast", in_place),
    "scatter": ("scatter", out_then_in),  # only while a model is set up: no phase is marked, so nothing is written
    "gather": ("gather", out_then_in),
    "reduce": ("reduce", in_place),
    "send": ("send", sent),
    "recv": ("recv", received),
}


class RecordingGroup(dist.ProcessGroup):
    """Writes each call down, then hands it to `carrier`: a gloo backend, or nothing in a simulated world."""

    def __init__(self, log, ranks, rank, carrier):
        super().__init__(rank, len(ranks))
        self.log, self.ranks, self.my_rank, self.carrier = log, ranks, rank, carrier

    def rank(self):
        return self.my_rank

    def size(self):
        return len(self.ranks)

    @property
    def group_name(self):
        return c10d._world.pg_names[self]

    def getBackendName(self):
        return "recording"

    def barrier(self, opts=None):
        return self.carrier.barrier(opts) if self.carrier else finished([])


def recording_method(name, op, ends):
    def call(self, *args):
        inputs, outputs = ends(args)
        self.log.add(op, self.ranks, inputs, outputs, **details(self, op, args, inputs, outputs))
        if self.carrier:
            return getattr(self.carrier, name)(*args)
        pretend(op, inputs, outputs)
        return finished(args[0])

    return call


for method, (word, argument_ends) in METHODS.items():
    setattr(RecordingGroup, method, recording_method(method, word, argument_ends))


def details(group, op, args, inputs, outputs):
    options = args[-1]
    return {
        "reduce": options.reduceOp.op.name.lower() if hasattr(options, "reduceOp") else None,
        "root": group.ranks[options.rootRank] if hasattr(options, "rootRank") else None,
        "peer": group.ranks[args[1]] if op in ("send", "recv") else None,
        "splits": splits(group, args, inputs, outputs) if op == "all_to_all" else None,
    }


def splits(group, args, inputs, outputs):
    """Rows of dim 0 that go to and come from each member. Equal splits have empty lists in c10d."""
    if len(args) < 5:  # the list form: one tensor per member
        return {"unit": "rows", "row_elements": 1, "send": [t.numel() for t in inputs], "recv": [t.numel() for t in outputs]}
    n = group.size()
    (source,), (target,) = inputs, outputs
    row = math.prod(source.shape[1:])
    return {
        "unit": "rows",
        "row_elements": row,
        "send": list(args[3]) or [source.shape[0] // n] * n,
        "recv": list(args[2]) or [target.shape[0] // n] * n,
    }


def pretend(op, inputs, outputs):
    """Fills the outputs of a simulated call from the rank's own inputs, so that no uninitialised number spreads."""
    source = torch.cat([t.detach().reshape(-1) for t in inputs]) if inputs else torch.zeros(1)
    if source.numel() == 0:
        source = torch.zeros(1)
    for out in outputs if op not in ("all_reduce", "broadcast", "reduce") else []:
        copies = -(-out.numel() // source.numel())
        out.detach().copy_(source.repeat(copies)[: out.numel()].view_as(out))


def finished(value):
    future = torch.futures.Future()
    future.set_result(value)
    return _create_work_from_future(future)


# One rank of a world.


class Run:
    """What a program gets: its rank, its groups, and the marks around the parts of a step."""

    def __init__(self, log, world):
        self.log, self.rank, self.world = log, log.rank, world
        self.at = coordinates(log.rank, log.axes)

    def phase(self, name):
        return self.log.at(phase=name)

    def microbatch(self, index):
        return self.log.at(microbatch=index)

    def synchronises(self, *axes):
        """The axes on which a wrapper (DDP, FSDP) reduces gradients from inside backward."""
        self.log.sync_axes = axes

    def recomputing(self):
        """To be put around a checkpointed segment: its second run happens inside backward."""
        return self.phase("recompute") if self.log.now.get("phase") == "backward" else contextlib.nullcontext()

    def mesh(self):
        return init_device_mesh("cpu", tuple(self.log.axes.values()), mesh_dim_names=tuple(self.log.axes))

    def group(self, *names):
        """The group of these axes through this rank. Every rank makes every group, in one order."""
        mine = None
        for ranks in family(names, self.log.axes):
            made = dist.new_group(ranks)
            mine = made if self.rank in ranks else mine
        return mine


def family(names, axes):
    groups = {}
    for rank in range(math.prod(axes.values())):
        place = coordinates(rank, axes)
        groups.setdefault(tuple(place[a] for a in axes if a not in names), []).append(rank)
    return list(groups.values())


def make_group(log, how):
    def create(options, _):
        ranks = list(options.global_ranks_in_group) or list(range(options.group_size))
        carrier = None
        if how == GLOO:
            carrier = dist.ProcessGroupGloo(options.store, options.group_rank, options.group_size, options.timeout)
        return RecordingGroup(log, ranks, options.group_rank, carrier)

    return create


def join_world(log, how, world, store_path):
    dist.Backend.register_backend("recording", make_group(log, how), extended_api=True, devices=["cpu"])
    store = dist.FileStore(store_path, world) if how == GLOO else dist.HashStore()
    dist.init_process_group("recording", store=store, rank=log.rank, world_size=world)
    if how == SIMULATED:  # new_group and DeviceMesh read the backend elsewhere, so only the branches on its name see this
        dist.get_backend = c10d.get_backend = lambda group=None: dist.Backend.NCCL
    dist.batch_isend_irecv = c10d.batch_isend_irecv = batched(log)


class BatchWork:
    """What a batch answers on NCCL: one work for all its operations."""

    def __init__(self, works):
        self.works = works

    def wait(self):
        for work in self.works:
            work.wait()


def batched(log):
    """CPU tensors make PyTorch issue a batch one by one; NCCL launches it as one kernel. The log keeps the batch."""

    def launch(operations):
        with log.batch():
            return [BatchWork([issue(log, operation) for operation in operations])]

    return launch


def issue(log, operation):
    peer = {"group_dst" if operation.op == dist.isend else "group_src": operation.group_peer}
    with log.at(**getattr(operation, "marks", {})):
        return operation.op(operation.tensor, group=operation.group, tag=operation.tag, **peer)


def run_rank(program, arguments, axes, how, rank, store_path, answer):
    warnings.filterwarnings("ignore", message="DTensor random operators")  # of weights whose values do not matter
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    log, world = Log(rank, axes), math.prod(axes.values())
    try:
        join_world(log, how, world, store_path)
        program(Run(log, world), **arguments)
        answer.send(log.events)
    except BaseException as error:
        answer.send(None)
        raise error
    if how == GLOO:
        dist.barrier()
    os._exit(0)  # no tear-down: gloo's threads and C++ statics of a forked child need none


def record(program, arguments, axes, how):
    """The events of every rank. Each rank is a forked child, so no rank sees another's global state."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    context, world = multiprocessing.get_context("fork"), math.prod(axes.values())
    with tempfile.TemporaryDirectory() as folder:
        ends = [context.Pipe(duplex=False) for _ in range(world)]
        children = [
            context.Process(target=run_rank, args=(program, arguments, axes, how, r, f"{folder}/store", ends[r][1]))
            for r in range(world)
        ]
        for child in children:
            child.start()
        events = [receive(ends[r][0], r) for r in range(world)]
        for child in children:
            child.join(30)
    if any(child.exitcode != 0 for child in children):
        raise RuntimeError(f"the ranks exited with {[child.exitcode for child in children]}")
    return events


def receive(end, rank):
    if not end.poll(300):
        raise RuntimeError(f"rank {rank} said nothing for 300 s")
    events = end.recv()
    if events is None:
        raise RuntimeError(f"rank {rank} failed; its error is printed above")
    return events

#!/usr/bin/env python3
"""Runs small programs under DeepSpeed, one process per rank over gloo, and writes down what each rank sends in a step.

python record.py PATH [--check]

PATH holds DeepSpeed 0.14.4 and what it imports; PyTorch 2.6 is that of the interpreter. The file is steps.json. A call is
[operation, element type, elements handed over or received, global ranks of its group, or of sender and receiver].
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
FILE = HERE / "steps.json"
LEADING = ("all_reduce", "broadcast", "send", "recv")  # the tensor comes first
SECOND = ("all_gather_into_tensor", "all_to_all_single")  # the output comes first


class Log:
    def __init__(self, dist, rank):
        self.dist, self.rank, self.calls, self.on = dist, rank, [], False
        for name in LEADING + SECOND:
            setattr(dist, name, self.logged(name, getattr(dist, name)))

    def logged(self, name, function):
        def call(*args, **kwargs):
            if self.on:
                self.add(name, args, kwargs)
            return function(*args, **kwargs)

        return call

    def add(self, name, args, kwargs):
        at = 1 if name in SECOND else 0
        tensor = args[at] if len(args) > at else kwargs.get("input_tensor", kwargs.get("input", kwargs.get("tensor")))
        if name in ("send", "recv"):
            other = args[1] if len(args) > 1 else kwargs["dst" if name == "send" else "src"]
            ranks = [self.rank, other] if name == "send" else [other, self.rank]
        else:
            ranks = sorted(self.dist.get_process_group_ranks(kwargs["group"]))
        word = name.removesuffix("_into_tensor").removesuffix("_single")
        self.calls.append([word, str(tensor.dtype).removeprefix("torch."), tensor.numel(), ranks])


def pipeline_of_cut_borders(torch, deepspeed, log):
    """Two stages of two ranks of tensor parallelism each, twice; two microbatches of 2 samples of 4 tokens, 16 wide."""
    from deepspeed.pipe import LayerSpec, PipelineModule
    from deepspeed.runtime.pipe.topology import PipeModelDataParallelTopology

    class Layer(torch.nn.Linear):
        def __init__(self):
            super().__init__(16, 16)

    def batches():
        while True:
            yield torch.randn(2, 4, 16), torch.randn(2, 4, 16)

    model = PipelineModule(
        layers=[LayerSpec(Layer) for _ in range(4)],
        topology=PipeModelDataParallelTopology(num_pp=2, num_mp=2, num_dp=2),
        loss_fn=torch.nn.functional.mse_loss,
        partition_method="uniform",
    )
    config = {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2}
    config["optimizer"] = {"type": "SGD", "params": {"lr": 0.1}}
    engine, *_ = deepspeed.initialize(model=model, model_parameters=list(model.parameters()), config=config)
    data = batches()
    engine.train_batch(data)  # the first step tells shapes, too
    log.on = True
    engine.train_batch(data)


def experts(torch, deepspeed, log, stage):
    """Four experts over two of four ranks, two for each token, between two linears."""
    from deepspeed.moe.layer import MoE
    from deepspeed.moe.utils import split_params_into_different_moe_groups_for_optimizer

    def linear(rows, columns):
        return torch.nn.Linear(rows, columns, bias=False)

    class Expert(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.up, self.down = linear(16, 32), linear(16, 32), linear(32, 16)

        def forward(self, x):
            return self.down(torch.nn.functional.silu(self.gate(x)) * self.up(x))

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.behind = linear(16, 16), linear(16, 16)
            self.moe = MoE(16, Expert(), num_experts=4, ep_size=2, k=2)

        def forward(self, x):
            return self.behind(x + self.moe(self.before(x))[0]).square().mean()

    model = Model()
    groups = split_params_into_different_moe_groups_for_optimizer({"params": list(model.parameters()), "name": "all"})
    config = {"train_micro_batch_size_per_gpu": 2, "zero_allow_untested_optimizer": True}
    config["zero_optimization"] = {"stage": stage, "reduce_bucket_size": 500000000}
    engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.SGD(groups, lr=0.1), config=config)
    for log.on in (False, True):
        engine.backward(engine(torch.randn(2, 8, 16)))
        engine.step()


def exchanged_heads(torch, deepspeed, log):
    """DistributedAttention over four ranks: 8 tokens on each, 2 samples, 8 heads of queries, 4 of keys and values, 8 wide."""
    from deepspeed.sequence.layer import DistributedAttention

    def attend(q, k, v):
        q, k, v = (t.permute(1, 2, 0, 3) for t in (q, k, v))
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        return out.permute(2, 0, 1, 3).contiguous()

    attention = DistributedAttention(attend, torch.distributed.new_group(range(4)))
    q, k, v = (torch.randn(8, 2, heads, 8, requires_grad=True) for heads in (8, 4, 4))
    log.on = True
    attention(q, k, v).square().mean().backward()


CASES = {
    "pipeline_of_cut_borders": (8, pipeline_of_cut_borders, {}),
    "experts_zero0": (4, experts, {"stage": 0}),
    "experts_zero1": (4, experts, {"stage": 1}),
    "experts_zero2": (4, experts, {"stage": 2}),
    "exchanged_heads": (4, exchanged_heads, {}),
}


def run_rank(path, rank, world, store, program, arguments, answer):
    sys.path.insert(0, path)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), DS_ACCELERATOR="cpu")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.modules["triton"] = None  # its kernels are for GPUs
    import torch

    torch.set_num_threads(1)
    log = Log(torch.distributed, rank)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    import deepspeed

    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # a compiled op for inference
    deepspeed.init_distributed("gloo")
    program(torch, deepspeed, log, **arguments)
    log.on = False
    answer.send(log.calls)
    torch.distributed.barrier()
    os._exit(0)


def steps(path, world, program, arguments):
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(world):
            here, there = context.Pipe(duplex=False)
            pipes.append(here)
            given = (path, rank, world, f"{folder}/store", program, arguments, there)
            processes.append(context.Process(target=run_rank, args=given))
            processes[-1].start()
        calls = [pipe.recv() for pipe in pipes]
        for process in processes:
            process.join()
    return calls


def text(cases):
    """One line per call."""
    lines = []
    for name, ranks in cases.items():
        rows = [",\n".join("   " + json.dumps(call) for call in calls) for calls in ranks]
        lines.append(f' "{name}": [\n' + ",\n".join(f"  [\n{row}\n  ]" for row in rows) + "\n ]")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    made = text({name: steps(given.path, *case) for name, case in CASES.items()})
    if given.check:
        sys.exit(0 if FILE.read_text() == made else "differs from " + str(FILE))
    FILE.write_text(made)


if __name__ == "__main__":
    main()

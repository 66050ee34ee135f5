"""The models that record.py records: one row each. A new one is one program and one row."""

from dataclasses import dataclass, field

import torch
from torch.distributed.pipelining import Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B

from data_parallel import ddp, ddp_tensor_parallel, fsdp, fsdp_tensor_parallel, fsdp_tied
from handwritten import checkpointed_block, context_parallel, grouped_query, ring, routed_experts, ulysses
from notes import dp_mlp, experts, pipeline, pp_4layers, tp_all_reduce, tp_mlp, tp_pp_dp, tp_sequence
from pipelines import torch_pipeline
from recorder import GLOO, SIMULATED
from tensor_parallel import (
    attention,
    gathered_column,
    llama_block,
    mlp,
    sequence_column,
    sequence_embedding,
    sequence_mlp,
    slicing_row,
    vocabulary_loss,
)
from torch_ring import torch_ring


@dataclass
class Model:
    name: str
    program: object
    axes: dict  # mesh axes and their sizes, slowest first
    how: str
    remarks: tuple
    folder: str | None  # of the model file that predicts this record; None if a model file cannot say it
    arguments: dict = field(default_factory=dict)


def models(folder, rows):
    return [
        Model(name, program, axes_of(axes), how, remarks, folder, arguments)
        for name, program, axes, how, remarks, arguments in rows
    ]


def axes_of(text):
    """Reads "dp 2, tp 4" as {"dp": 2, "tp": 4}."""
    return {name: int(size) for name, size in (part.split() for part in text.split(", "))}


def row(name, program, axes, how, *remarks, **arguments):
    return name, program, axes, how, remarks, arguments


LAZY = (
    "DTensor leaves the norm weight's gradient Partial until the optimizer reads it. SGD reads it once, so its all-reduce "
    "has phase step; a prediction lists it as gradient synchronisation."
)
HOOKS = "The wrapper reduces gradients from hooks inside backward: such events have phase grad_sync and during backward."
PREFETCH = "In backward FSDP2 gathers the next unit before it reduces the current one."
STREAMS = "FSDP2 is written for CUDA: streams and tensor versions have CPU stand-ins, which issue nothing."
ROOT = "The root's input needs no gradient, so its reduction waits for the end of backward, which visits the root first."
BATCH = "Events with one batch number were handed to one batch_isend_irecv: on NCCL that is one kernel."
STOP = "Recomputation stops as soon as every saved tensor is there, so the trailing all-reduce is not repeated."
CPU_KERNELS = "PyTorch's ring attention was called with the attention kernels of CPUs; what it sends is its own."
UNPREDICTED_HSDP = "No model file: it cannot say that units are sharded over one axis and replicated over another."
UNPREDICTED_REGROUPING = "No model file: the two broadcasts happen once in a run, not in every step."
UNPREDICTED_BUFFERS = "No model file: it cannot say that a module has buffers."
UNPREDICTED_RECOMPUTE = "No model file: it cannot say which segment is recomputed."
FSDP = (HOOKS, PREFETCH, STREAMS)

COUNTS = [10, 2, 3, 1]

# fmt: off
TABLE = models("models", [
    row("tp_ar_b32", tp_all_reduce, "dp 2, tp 2", GLOO, batch=32),
    row("tp_ar_b128", tp_all_reduce, "dp 2, tp 2", GLOO, batch=128),
    row("tp_sp_b128", tp_sequence, "dp 2, tp 2", SIMULATED, batch=128),
    row("pp_mb1", pipeline, "dp 2, pp 2", GLOO, microbatches=1),
    row("pp_mb8", pipeline, "dp 2, pp 2", GLOO, microbatches=8),
    row("ep_balanced", experts, "edp 2, ep 2", GLOO, counts=[32, 32], input_grad=True),
    row("ep_skewed", experts, "edp 2, ep 2", GLOO, counts=[56, 8], input_grad=True),
    row("ep_no_input_grad", experts, "edp 2, ep 2", GLOO, counts=[32, 32], input_grad=False),
    row("tp_mlp", tp_mlp, "tp 2", GLOO),
    row("pp_4layers", pp_4layers, "pp 2", GLOO),
    row("dp_mlp", dp_mlp, "dp 2", GLOO),
    row("tp_pp_dp_8ranks", tp_pp_dp, "dp 2, pp 2, tp 2", GLOO, x_grad=False),
    row("tp_pp_dp_8ranks_x_grad", tp_pp_dp, "dp 2, pp 2, tp 2", GLOO, x_grad=True),
]) + models("tests/recorded/models", [
    row("dtensor_mlp", mlp, "tp 2", GLOO, x_grad=True),
    row("dtensor_mlp_frozen_input", mlp, "tp 2", GLOO, x_grad=False, layers=2),
    row("dtensor_mlp_frozen_weights", mlp, "tp 2", GLOO, x_grad=True, frozen=("up", "down")),
    row("dtensor_sequence_to_replicate", mlp, "tp 2", SIMULATED, x_grad=True, local=True, up=sequence_column),
    row("dtensor_gathered_column", mlp, "tp 2", SIMULATED, x_grad=True, up=gathered_column, down=slicing_row),
    row("dtensor_sp_mlp", sequence_mlp, "tp 2", SIMULATED, LAZY),
    row("dtensor_sp_mlp_frozen_norm", sequence_mlp, "tp 2", SIMULATED, frozen=("norm",)),
    row("dtensor_sequence_embedding", sequence_embedding, "tp 2", SIMULATED),
    row("dtensor_vocabulary_loss", vocabulary_loss, "tp 2", GLOO, gathered=False),
    row("dtensor_gathered_logits", vocabulary_loss, "tp 2", SIMULATED, gathered=True),
    row("dtensor_attention", attention, "tp 2", GLOO, prepared=True),
    row("dtensor_attention_per_consumer", attention, "tp 2", GLOO, prepared=False),
    row("dtensor_llama_block", llama_block, "tp 4", SIMULATED, LAZY),
    row("fsdp_mlp", fsdp, "dp 4", SIMULATED, *FSDP),
    row("fsdp_mlp_no_reshard", fsdp, "dp 4", SIMULATED, *FSDP, reshard=False),
    row("fsdp_mlp_frozen_up", fsdp, "dp 4", SIMULATED, *FSDP, frozen=("up",)),
    row("fsdp_mlp_uneven", fsdp, "dp 4", SIMULATED, *FSDP, hidden=250),
    row("fsdp_mlp_no_sync", fsdp, "dp 4", SIMULATED, *FSDP, microbatches=2),
    row("fsdp_mlp_root", fsdp, "dp 4", SIMULATED, *FSDP, ROOT, head=True),
    row("fsdp_mlp_x_grad", fsdp, "dp 4", SIMULATED, *FSDP, head=True, x_grad=True),
    row("fsdp_tied", fsdp_tied, "dp 4", SIMULATED, *FSDP),
    row("fsdp_tp_mlp", fsdp_tensor_parallel, "dp 2, tp 2", SIMULATED, *FSDP),
    row("ddp_buckets", ddp, "dp 2", GLOO, HOOKS, iteration=3),
    row("ddp_first_iteration", ddp, "dp 2", GLOO, HOOKS, iteration=1),
    row("ddp_frozen", ddp, "dp 2", GLOO, HOOKS, iteration=3, frozen=(0, 3, 4, 9)),
    row("ddp_no_sync", ddp, "dp 2", GLOO, HOOKS, iteration=3, microbatches=2),
    row("ddp_tp_mlp", ddp_tensor_parallel, "dp 2, tp 2", GLOO, HOOKS),
    row("moe_pair", routed_experts, "ep 4", GLOO, counts=COUNTS, x_grad=True, gate_grad=True, expert_grad=True),
    row("moe_pair_frozen_input", routed_experts, "ep 4", GLOO, counts=COUNTS, x_grad=False, gate_grad=True, expert_grad=True),
    row("moe_pair_router_only", routed_experts, "ep 4", GLOO, counts=COUNTS, x_grad=False, gate_grad=True, expert_grad=False),
    row("gpipe_p2_m4", torch_pipeline, "pp 2", GLOO, BATCH, schedule=ScheduleGPipe, microbatches=4),
    row("gpipe_p4_m8", torch_pipeline, "pp 4", GLOO, BATCH, schedule=ScheduleGPipe, microbatches=8),
    row("one_f_one_b_p2_m4", torch_pipeline, "pp 2", GLOO, BATCH, schedule=Schedule1F1B, microbatches=4),
    row("one_f_one_b_p4_m8", torch_pipeline, "pp 4", GLOO, BATCH, schedule=Schedule1F1B, microbatches=8),
    row("interleaved_p2_v2_m4", torch_pipeline, "pp 2", GLOO, BATCH, schedule=ScheduleInterleaved1F1B, microbatches=4, virtual=2),
    row("interleaved_p3_v2_m6", torch_pipeline, "pp 3", GLOO, BATCH, schedule=ScheduleInterleaved1F1B, microbatches=6, virtual=2),
    row("ulysses", ulysses, "sp 4", GLOO),
    row("cp_all_gather", context_parallel, "cp 4", SIMULATED),
    row("ring", ring, "cp 4", GLOO),
    row("torch_ring_gathered", torch_ring, "cp 4", SIMULATED, CPU_KERNELS, rotate="allgather", dtype=torch.bfloat16),
    row("torch_ring_exchanged", torch_ring, "cp 4", GLOO, CPU_KERNELS, rotate="alltoall", dtype=torch.float32),
    row("gqa_tp4_kv2", grouped_query, "kv 2, rep 2", GLOO),
]) + models(None, [
    row("hsdp_mlp", fsdp, "replicate 2, shard 2", SIMULATED, *FSDP, UNPREDICTED_HSDP),
    row("ddp_buffers", ddp, "dp 2", GLOO, HOOKS, UNPREDICTED_BUFFERS, iteration=3, microbatches=3, buffers=64),
    row("ddp_second_iteration", ddp, "dp 2", GLOO, HOOKS, UNPREDICTED_REGROUPING, iteration=2),
    row("checkpoint_tp", checkpointed_block, "tp 2", GLOO, STOP, UNPREDICTED_RECOMPUTE, reentrant=False),
    row("checkpoint_tp_reentrant", checkpointed_block, "tp 2", GLOO, UNPREDICTED_RECOMPUTE, reentrant=True),
])
# fmt: on

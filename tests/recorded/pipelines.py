"""torch.distributed.pipelining: its schedules over stages of one linear layer."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleInterleaved1F1B
from torch.distributed.pipelining.stage import _PipelineStageBase

ROWS, WIDTH = 4, 32

PHASES = {"fwd_recv": "forward", "fwd_send": "forward", "bwd_recv": "backward", "bwd_send": "backward"}


def mark_operations(run, virtual):
    """Has each stage's P2P operations carry their phase, microbatch and chunk, which a schedule alone knows."""
    for kind, phase in PHASES.items():
        name = f"get_{kind}_ops"
        setattr(_PipelineStageBase, name, marking(getattr(_PipelineStageBase, name), run, phase, virtual))


def marking(method, run, phase, virtual):
    def operations(stage, index):
        marks = {"phase": phase, "microbatch": index}
        if virtual > 1:
            marks["chunk"] = stage.stage_index // run.log.axes["pp"]
        made = method(stage, index)
        for operation in made:
            operation.marks = marks
        return made

    return operations


def torch_pipeline(run, schedule, microbatches, virtual=1):
    pp = run.group("pp")
    ranks = run.log.axes["pp"]
    mark_operations(run, virtual)
    rows = torch.empty(ROWS, WIDTH)
    stages = [
        PipelineStage(
            nn.Linear(WIDTH, WIDTH),
            run.rank + i * ranks,
            ranks * virtual,
            torch.device("cpu"),
            input_args=(rows,),
            output_args=(rows,),
            group=pp,
        )
        for i in range(virtual)
    ]
    one = stages if schedule is ScheduleInterleaved1F1B else stages[0]
    loop = schedule(one, n_microbatches=microbatches, loss_fn=F.mse_loss)
    batch = torch.randn(ROWS * microbatches, WIDTH)
    first, last = run.rank == 0, run.rank == ranks - 1
    loop.step(*([batch] if first else []), target=batch if last else None, losses=[] if last else None)

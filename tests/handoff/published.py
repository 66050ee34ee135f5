"""Workloads of published models against AICB's generator and the corrections it needs.

Sources: aliyun/aicb, workload_generator/mocked_model/training/MockedMegatron.py (a column linear
gathers in forward, gathers and scatters in backward; a row linear scatters in forward and gathers
in backward, with sequence parallelism; without it both all-reduce once) and the files that it wrote
(G13B-M1-C02: 20,971,520 B a call; L65B-M1-C05: 33,554,432 B). The latter lists 1,280 forward
all-reduces on each of 8 stages: its generator forgets to divide 80 layers by 8. Narayanan et al. 2021
(arXiv 2104.04473) has 2 L/p m = 160. Usage: published.py SHAPE2TRACE
"""

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

LLAMA_65B = {"model_type": "llama", "hidden_size": 8192, "intermediate_size": 22016,
             "num_attention_heads": 64, "num_hidden_layers": 80, "vocab_size": 32000}
GPT_13B = {"model_type": "gpt2", "n_embd": 5120, "n_head": 40, "n_layer": 40, "n_positions": 2048,
           "vocab_size": 50257}


def rows(binary, config, rank, *plan):
    """Counts of (phase, owner, call, group, bytes, way) of one rank."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "config.json")
        file.write_text(json.dumps(config))
        text = subprocess.run([binary, "predict", str(file), "--profile", "megatron", *plan,
                               "--format", "aicb", "--rank", str(rank)], capture_output=True,
                              text=True, check=True, timeout=120).stdout
    count = Counter()
    for line in text.splitlines()[1:-1]:
        call, group, _, size, stage, _, _, way, *_, repeat = line.split(",")
        phase, _, owner = stage.partition(".")
        key = phase, owner, call.split(".")[1], group.split(".")[1], int(size), way
        count[key] += int(repeat)
    return count


def expect(count, wanted):
    """`wanted`: key -> number; keys that begin alike must be exactly these."""
    for key, number in wanted.items():
        assert count[key] == number, f"{key}: {count[key]}, published {number}\n{count}"


def llama_65b(binary):
    plan = ["--tp", "2", "--pp", "8", "--dp", "8", "--seq", "2048", "--global-batch", "64"]
    size = 2048 * 8192 * 2
    assert size == 33_554_432
    middle = rows(binary, LLAMA_65B, 16 * 3, *plan)
    expect(middle, {("forward", "attn", "all_reduce", "tp_group", size, ""): 80,
                    ("forward", "mlp", "all_reduce", "tp_group", size, ""): 80,
                    ("backward", "attn", "all_reduce", "tp_group", size, ""): 80,
                    ("backward", "mlp", "all_reduce", "tp_group", size, ""): 80,
                    ("forward", "pipeline", "isend", "pp_group", size, "send_next"): 8,
                    ("forward", "pipeline", "irecv", "pp_group", size, "recv_prev"): 8,
                    ("backward", "pipeline", "isend", "pp_group", size, "send_prev"): 8,
                    ("backward", "pipeline", "irecv", "pp_group", size, "recv_next"): 8})
    first = rows(binary, LLAMA_65B, 0, *plan)
    expect(first, {("forward", "embed", "all_reduce", "tp_group", size, ""): 8})
    assert not any("_prev" in key[-1] for key in first if key[0] == "forward")
    last = rows(binary, LLAMA_65B, 127, *plan)
    assert not any("send_next" in key[-1] for key in last)
    expect(last, {("forward", "loss", "all_reduce", "tp_group", 2048 * 4, ""): 3 * 8})


def gpt_13b(binary):
    size = 2048 * 5120 * 2
    assert size == 20_971_520
    count = rows(binary, GPT_13B, 0, "--tp", "8", "--dp", "16", "--sp", "--seq", "2048")
    wanted = {("forward", "embed", "all_reduce", "tp_group", size, ""): 1,
              ("forward", "loss", "all_reduce", "tp_group", 2048 * 4, ""): 3}
    for owner in ("attn", "mlp"):
        wanted[("forward", owner, "all_gather", "tp_group", size, "")] = 40
        wanted[("forward", owner, "reduce_scatter", "tp_group", size, "")] = 40
        wanted[("backward", owner, "all_gather", "tp_group", size, "")] = 80
        wanted[("backward", owner, "reduce_scatter", "tp_group", size, "")] = 40
    expect(count, wanted)


if __name__ == "__main__":
    llama_65b(sys.argv[1])
    gpt_13b(sys.argv[1])
    print("2 published workloads agree")

"""Speed and memory of the whole process, as a user waits for it. Prints figures, judges nothing.

Each row is the median of RUNS runs (wall clock, then processor time, which other load on the machine
changes less), the greatest resident set, and user instructions where `perf` may count them. Ratios
below the table say how cost grows, in instructions where `perf` or `valgrind` counts them. Usage:
bench.py SHAPE2TRACE ROOT FOLDER [RUNS]; models too big to keep are written to FOLDER. With RUNS 1
it is a smoke test: every command must succeed.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path


def mlp(name, layers, tp, dp, width=512, hidden=2048):
    """Column and row parallel linears: every layer reduces once forward and once backward."""
    tensors, ops, value = {"x": {"shape": ["batch", width]}}, [], "x"
    for i in range(layers):
        tensors[f"w{i}a"] = {"shape": [hidden, width], "parameter": True, "layout": {"tp": "S(0)"}}
        tensors[f"w{i}b"] = {"shape": [width, hidden], "parameter": True, "layout": {"tp": "S(1)"}}
        ops += [{"op": "linear", "inputs": [value, f"w{i}a"], "output": f"h{i}"},
                {"op": "gelu", "inputs": [f"h{i}"], "output": f"g{i}"},
                {"op": "linear", "inputs": [f"g{i}", f"w{i}b"], "output": f"y{i}"}]
        value = f"y{i}"
    ops.append({"op": "mean_square", "inputs": [value], "output": "loss"})
    return {"schema": "shape2trace.model/1", "name": name,
            "mesh": {"axes": [{"name": "dp", "size": dp, "kind": "data"},
                              {"name": "tp", "size": tp}]},
            "batch": {"local": 128, "axes": ["dp"]}, "tensors": tensors, "ops": ops, "loss": "loss",
            "gradient_sync": {"kind": "per_parameter", "axes": ["dp"], "reduce": "mean"}}


# As published; only what decides a number.
LLAMA_405B = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 16384,
              "intermediate_size": 53248, "num_hidden_layers": 126, "num_attention_heads": 128,
              "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": False,
              "torch_dtype": "bfloat16"}


def llama(dp, microbatches):
    """The plan of the Llama 3 report: 126 layers as 7, 14 x 8, 7."""
    return ["--profile", "megatron", "--tp", "8", "--pp", "16", "--dp", str(dp), "--sp",
            "--stage-layers", "7,14x8,7", "--seq", "8192", "--zero", "1",
            "--global-batch", str(dp * microbatches)]


# The sizes of DeepSeek-V3 with plain attention: 61 layers of 256 experts.
EXPERTS_256 = {"model_type": "mixtral", "hidden_size": 7168, "intermediate_size": 2048,
               "num_attention_heads": 128, "num_key_value_heads": 128, "num_hidden_layers": 61,
               "vocab_size": 129280, "num_local_experts": 256, "num_experts_per_tok": 8}
EXPERT_PLAN = ["--profile", "megatron", "--pp", "16", "--ep", "64", "--dp", "128", "--seq", "4096",
               "--stage-layers", "3,14x4,2", "--global-batch", "8192"]

# As published: latent attention, three dense layers before those with experts.
DEEPSEEK_V3 = {"model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432,
               "moe_intermediate_size": 2048, "num_attention_heads": 128,
               "num_key_value_heads": 128, "num_hidden_layers": 61, "vocab_size": 129280,
               "n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1,
               "first_k_dense_replace": 3, "q_lora_rank": 1536, "kv_lora_rank": 512,
               "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128}

GENERATED = {"llama_405b": lambda: LLAMA_405B,
             "experts_256": lambda: EXPERTS_256,
             "deepseek_v3": lambda: DEEPSEEK_V3,
             "mlp1000_65536": lambda: mlp("mlp1000_65536", 1000, 8, 8192),
             "mlp1000_512": lambda: mlp("mlp1000_512", 1000, 8, 64),
             "mlp500_512": lambda: mlp("mlp500_512", 500, 8, 64)}

# label, model (a name of GENERATED or a file), arguments; what it should stay under
ROWS = [
    ("note model, text", "models/tp_ar_b128.json", ["predict"], "10 ms"),
    ("1,000 layers, 65,536 ranks, summary", "mlp1000_65536", ["predict", "--summary"],
     "150 ms, 150 MB"),
    ("1,000 layers, 512 ranks, summary", "mlp1000_512", ["predict", "--summary"], "within 10 %"),
    ("500 layers, 512 ranks, summary", "mlp500_512", ["predict", "--summary"], "half"),
    ("Llama 405B, 16,384 ranks, summary", "llama_405b", ["predict", *llama(128, 16), "--summary"],
     "50 ms, 100 MB"),
    ("Llama 405B, 131,072 ranks, summary", "llama_405b",
     ["predict", *llama(1024, 16), "--summary"], "within 10 %"),
    ("Llama 405B, 256 microbatches, summary", "llama_405b",
     ["predict", *llama(128, 256), "--summary"], ""),
    ("Llama 405B, all events of a rank, JSON", "llama_405b",
     ["predict", *llama(128, 16), "--expand", "--format", "json", "--rank", "0"], "500 ms"),
    ("256 experts, 2,048 ranks, summary", "experts_256", ["predict", *EXPERT_PLAN, "--summary"],
     "100 ms"),
    ("DeepSeek-V3, 2,048 ranks, summary", "deepseek_v3", ["predict", *EXPERT_PLAN, "--summary"],
     "100 ms"),
]
RATIOS = [("65,536 ranks : 512 ranks", 1, 2), ("1,000 layers : 500 layers", 2, 3),
          ("Llama 405B, 131,072 ranks : 16,384 ranks", 5, 4),
          ("Llama 405B, 256 microbatches : 16", 6, 4)]


def once(command):
    """Wall seconds, processor seconds and resident megabytes of one run of a process."""
    begin = time.perf_counter()
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=[
        (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
    _, status, usage = os.wait4(pid, 0)
    seconds = time.perf_counter() - begin
    if status:
        sys.exit(f"failed ({os.waitstatus_to_exitcode(status)}): {' '.join(command)}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def instructions(command):
    """User instructions of one run; None where perf is absent or may not count."""
    try:
        result = subprocess.run(["perf", "stat", "-x,", "-e", "instructions:u", *command],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    except FileNotFoundError:
        return None
    count = re.search(r"^(\d+),", result.stderr, re.M)
    return int(count[1]) if count else None


def counted(command):
    """The same from valgrind, where perf may not count; slow, so only for ratios."""
    try:
        result = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
                                 *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                text=True)
    except FileNotFoundError:
        return None
    count = re.search(r"Collected : (\d+)", result.stderr)
    return int(count[1]) if count else None


def command_of(binary, root, folder, model, arguments):
    verb, *rest = arguments
    return [binary, verb, f"{folder}/{model}.json" if model in GENERATED else f"{root}/{model}",
            *rest]


def measure(command, runs):
    wall, processor, memory = zip(*(once(command) for _ in range(runs)))
    return {"wall": statistics.median(wall), "processor": statistics.median(processor),
            "memory": max(memory), "instructions": instructions(command)}


def main(binary, root, folder, runs="15"):
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, model in GENERATED.items():
        Path(folder, f"{name}.json").write_text(json.dumps(model()))
    print(f"{'whole process':44} {'wall':>9} {'processor':>9} {'memory':>8} {'Minstr':>9}  aim")
    figures = []
    for label, model, arguments, aim in ROWS:
        m = measure(command_of(binary, root, folder, model, arguments), int(runs))
        figures.append(m)
        count = f"{m['instructions'] / 1e6:9.1f}" if m["instructions"] else f"{'-':>9}"
        print(f"{label:44} {m['wall'] * 1e3:6.1f} ms {m['processor'] * 1e3:6.1f} ms "
              f"{m['memory']:5.0f} MB {count}  {aim}")
    for label, a, b in RATIOS:
        for i in (a, b) if int(runs) > 1 else ():
            if not figures[i]["instructions"]:
                _, model, arguments, _ = ROWS[i]
                figures[i]["instructions"] = counted(
                    command_of(binary, root, folder, model, arguments))
        key = "instructions" if figures[a]["instructions"] and figures[b]["instructions"] \
            else "processor"
        print(f"{label}: {figures[a][key] / figures[b][key]:.3f} ({key})")


if __name__ == "__main__":
    main(*sys.argv[1:])

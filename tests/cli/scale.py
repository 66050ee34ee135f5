"""Judges the short forms of a large model by adding up the long ones.

A llama of 80 layers on 512 ranks, and a mixtral of 32 on 128: for one rank of every stage, `owners`,
`totals`, module filters, CSV and the summary of all microbatches must be what follows from the
events that `--expand` lists. Usage: scale.py SHAPE2TRACE ROOT
"""

import csv
import io
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from fnmatch import fnmatchcase
from pathlib import Path

import jsonschema

LLAMA = ({"model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672,
          "num_attention_heads": 64, "num_key_value_heads": 8, "num_hidden_layers": 80,
          "vocab_size": 128256},
         ["--tp", "8", "--pp", "4", "--dp", "16", "--sp", "--seq", "8192", "--global-batch", "64",
          "--zero", "1"], 4, 512)
MIXTRAL = ({"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
            "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32,
            "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2},
           ["--tp", "2", "--pp", "4", "--dp", "16", "--ep", "8", "--sp", "--seq", "4096",
            "--global-batch", "32"], 4, 128)
NUMBERS = ("calls", "input_bytes", "output_bytes", "wire_bytes")


class Judge:
    def __init__(self, binary, root, config, plan, folder):
        self.schema = json.loads(Path(root, "schemas/program.schema.json").read_text())
        file = Path(folder, "config.json")
        file.write_text(json.dumps(config))
        self.command = [binary, "predict", str(file), "--profile", "megatron", *plan]

    def text(self, *words):
        return subprocess.run([*self.command, *words], capture_output=True, text=True, check=True,
                              timeout=120).stdout

    def json(self, *words):
        return json.loads(self.text("--format", "json", *words))


def add_up(events, key):
    """Calls and bytes per key; what is received went over the wire when it was sent."""
    sums = defaultdict(lambda: [0, 0, 0, 0])
    for e in events:
        numbers = (1, e["input_bytes"], e["output_bytes"],
                   0 if e["op"] == "recv" else e["wire_bytes"])
        sums[key(e)] = [a + n * e["repeat"] for a, n in zip(sums[key(e)], numbers)]
    return dict(sums)


def rows(listed, key):
    return {key(row): [row[n] for n in NUMBERS] for row in listed}


def belongs(event, pattern):
    parts = event["module"].split(".")
    names = [".".join(parts[:n + 1]) for n in range(len(parts))] if event["module"] else []
    return any(fnmatchcase(n, pattern) for n in [*names, event["node"], event["owner"]])


def judge(judge, stages, world):
    summary = judge.json("--summary")
    jsonschema.validate(summary, judge.schema)
    of_stage = []
    for stage in range(stages):
        rank = str(world // stages * stage)
        program = judge.json("--rank", rank)
        events = program["events"]
        assert sum(program["ranks"][0]["operations"].values()) == len(events)
        owners = [row for row in summary["owners"] if row["stage"] == stage]
        by_owner = add_up(events, lambda e: (e["owner"], e["phase"]))
        assert rows(owners, lambda r: (r["owner"], r["phase"])) == by_owner
        repeated = judge.json("--rank", rank, "--summary")["events"]
        assert any(e["repeat"] > 1 for e in repeated)
        assert add_up(repeated, lambda e: (e["phase"], e["op"], e["tensor"])) == \
            add_up(events, lambda e: (e["phase"], e["op"], e["tensor"]))
        of_stage.append(add_up(events, lambda e: e["family"]))
        check_filters(judge, rank, events)
        check_csv(judge, rank, events)
    check_totals(summary, of_stage, world // stages)
    check_modules(summary, of_stage)


def check_totals(summary, of_stage, ranks_of_stage):
    """Per group of the rank that moves most over it, and the wire of all; every rank of a stage does
    the same here."""
    totals = rows(summary["totals"], lambda r: r["family"])
    for family, numbers in totals.items():
        busiest = max((f[family] for f in of_stage if family in f), key=lambda n: (n[1] + n[2], n[0]))
        assert numbers == busiest, (family, numbers, busiest)
    for row in summary["totals"]:
        wire = sum(f.get(row["family"], [0] * 4)[3] for f in of_stage)
        assert row["wire_bytes_of_all_ranks"] == wire * ranks_of_stage, row


def check_modules(summary, of_stage):
    """Every module's calls, as often as they run and for as many as do the same, on all stages."""
    sums = defaultdict(lambda: [0, 0, 0, 0])
    for row in summary["modules"]:
        for c in row["calls"]:
            ways = len(row["numbers"]) or len(row["stages"]) or len(of_stage)  # of no stage: on all
            n = ways * row["times"] * c["calls"]
            wire = 0 if c["op"] == "recv" else c["wire_bytes"]
            add = (n, n * c["input_bytes"], n * c["output_bytes"], n * wire)
            sums[c["family"]] = [a + b for a, b in zip(sums[c["family"]], add)]
    for family, sum_of_modules in sums.items():
        listed = [f.get(family, [0] * 4) for f in of_stage]
        assert sum_of_modules == [sum(column) for column in zip(*listed)], family


def check_filters(judge, rank, events):
    for pattern in ("layers.9", "layers.1*.attn", "optimizer", "pipeline", "layers"):
        if not any(belongs(e, pattern) for e in judge.all):
            continue
        kept = judge.json("--rank", rank, "--module", pattern)["events"]
        assert kept == [e for e in events if belongs(e, pattern)], pattern


def check_csv(judge, rank, events):
    lines = list(csv.DictReader(io.StringIO(judge.text("--rank", rank, "--format", "csv"))))
    assert len(lines) == len(events)
    for line, event in zip(lines, events):
        for name in ("id", "phase", "op", "family", "tensor", "node", "module", "owner", "dtype",
                     "elements", "input_bytes", "output_bytes", "wire_bytes", "repeat"):
            assert line[name] == str(event[name]), (name, line, event)


def main(binary, root):
    for config, plan, stages, world in (LLAMA, MIXTRAL):
        with tempfile.TemporaryDirectory() as folder:
            one = Judge(binary, root, config, plan, folder)
            one.all = one.json("--summary")["events"]
            judge(one, stages, world)
            print(f"{config['model_type']}: {len(one.all)} kinds of events on {stages} stages")


if __name__ == "__main__":
    main(*sys.argv[1:])

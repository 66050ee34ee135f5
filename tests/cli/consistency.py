"""Judges `predict --format json` of every model by arithmetic of its own.

From the events alone: kernels and operations of every rank, byte counts from elements and group
sizes, sends and receives that pair up in order, all-to-all splits that mirror each other, dense ids,
a summary that repeats to the same totals. Usage: consistency.py SHAPE2TRACE MODEL...
"""

import json
import math
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

SIZE = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8, "float8": 1, "int64": 8,
        "int32": 4, "bool": 1}
KERNEL = {"all_reduce": "AllReduce", "all_gather": "AllGather", "reduce_scatter": "ReduceScatter",
          "all_to_all": "SendRecv", "broadcast": "Broadcast", "reduce": "Reduce"}


def predict(binary, model, *words):
    result = subprocess.run([binary, "predict", model, "--format", "json", *words],
                            capture_output=True, text=True, timeout=120, check=True)
    return json.loads(result.stdout)


def world_of(program):
    return math.prod(axis["size"] for axis in program["mesh"]["axes"])


def issuers(event, world):
    return range(world) if event["ranks"] == "all" else event["ranks"]


def bytes_of(event, n):
    """(input, output, wire) by the published formulas."""
    part = event["elements"] * SIZE[event["dtype"]]
    full = n * part
    return {"all_reduce": (part, part, -(-2 * (n - 1) * part // n)),
            "all_gather": (part, full, full - part),
            "reduce_scatter": (full, part, full - part),
            "send": (part, 0, part), "recv": (0, part, part),
            "broadcast": (part, part, part), "reduce": (part, part, part)}.get(event["op"])


def check_bytes(program):
    groups = {(g["family"], r): g["ranks"] for g in program["groups"] for r in g["ranks"]}
    for event in program["events"]:
        numbers = event["input_bytes"], event["output_bytes"], event["wire_bytes"]
        for rank in issuers(event, world_of(program)):
            group = groups.get((event["family"], rank))
            if group is None or len(group) < 2:
                yield f"event {event['id']}: rank {rank} has no group {event['family']} of two"
                continue
            if event["op"] == "all_to_all":
                yield from check_splits(event, group.index(rank), numbers)
            elif bytes_of(event, len(group)) != numbers:
                yield f"event {event['id']}: {numbers}, not {bytes_of(event, len(group))}"
            if "peer" in event and (event["peer"] not in group or event["peer"] == rank):
                yield f"event {event['id']}: peer {event['peer']} of rank {rank}"


def check_splits(event, me, numbers):
    splits = event["splits"]
    row = splits["row_elements"] * SIZE[event["dtype"]]
    sent, received = sum(splits["send"]), sum(splits["recv"])
    expected = sent * row, received * row, (sent - splits["send"][me]) * row
    if expected != numbers or event["elements"] != sent * splits["row_elements"]:
        yield f"event {event['id']}: {numbers}, its rows make {expected}"


def check_mirrors(program):
    """What i sends to j is what j receives from i."""
    calls = defaultdict(dict)
    for event in program["events"]:
        if event["op"] == "all_to_all":
            for rank in issuers(event, world_of(program)):
                calls[event["call"]][rank] = event["splits"]
    families = {g["family"] for g in program["groups"]}
    for call, by_rank in calls.items():
        family = next(e["family"] for e in program["events"] if e["call"] == call)
        assert family in families
        for group in (g["ranks"] for g in program["groups"] if g["family"] == family):
            for i, a in enumerate(group):
                for j, b in enumerate(group):
                    if a in by_rank and by_rank[a]["send"][j] != by_rank[b]["recv"][i]:
                        yield f"call {call}: {a} sends {b} other rows than {b} receives"


def check_fingerprint(program):
    world = world_of(program)
    operations, kernels, seen = defaultdict(Counter), defaultdict(Counter), set()
    for event in program["events"]:
        for rank in issuers(event, world):
            operations[rank][event["op"]] += 1
            launch = (rank, "batch", event["batch"]) if event["op"] in ("send", "recv") else (
                rank, "call", event["call"])
            if launch not in seen:
                seen.add(launch)
                kernels[rank][KERNEL.get(event["op"], "SendRecv")] += 1
            elif event["op"] not in ("send", "recv"):
                yield f"event {event['id']}: rank {rank} is twice in call {event['call']}"
    for row in program["ranks"]:
        for stated, counted in [(row["operations"], operations), (row["kernels"], kernels)]:
            if {k: v for k, v in stated.items() if v} != dict(counted[row["rank"]]):
                yield f"rank {row['rank']}: {stated} stated, {dict(counted[row['rank']])} counted"
    if [row["rank"] for row in program["ranks"]] != list(range(world)):
        yield "not every rank has a fingerprint"


def check_messages(program):
    """The k-th send from a to b meets the k-th receive of b from a: same tensor, same bytes."""
    sends, receives = defaultdict(list), defaultdict(list)
    for event in program["events"]:
        what = event["tensor"], event["microbatch"], event["dtype"], event["elements"]
        if event["op"] == "send":
            sends[event["ranks"][0], event["peer"]].append(what)
        elif event["op"] == "recv":
            receives[event["peer"], event["ranks"][0]].append(what)
    for pair in sends.keys() | receives.keys():
        if sends[pair] != receives[pair]:
            yield f"messages from {pair[0]} to {pair[1]} do not pair up"


def ids_by_content(program):
    """Ids of the events that are alike but for the microbatch, in the order of the listing."""
    ids = defaultdict(list)
    for e in program["events"]:
        ids[str([e.get(k) for k in ("phase", "op", "family", "tensor", "ranks", "peer", "input_bytes",
                                    "output_bytes", "cause")])].append(e["id"])
    return ids


def check_summary(program, summary):
    def totals(p):
        sums = Counter()
        for e in p["events"]:
            for rank in issuers(e, world_of(p)):
                key = rank, e["phase"], e["op"], e["family"]
                sums[key] += e["repeat"] * (e["input_bytes"] + e["output_bytes"] + e["wire_bytes"])
        return +sums
    if totals(program) != totals(summary):
        yield "the summary has other totals"
    if summary["ranks"] != program["ranks"]:
        yield "the summary has other fingerprints"
    all_ids, ids = ids_by_content(program), ids_by_content(summary)
    for content, mine in ids.items():
        if sorted(mine) != all_ids[content][:len(mine)]:
            yield f"the summary calls events {all_ids[content][:len(mine)]} {mine}"


def check_rank(binary, model, program):
    rank = world_of(program) - 1
    own = predict(binary, model, "--rank", str(rank))["events"]
    if own != [e for e in program["events"] if rank in issuers(e, world_of(program))]:
        yield f"--rank {rank} prints other events"


def problems(binary, model):
    program = predict(binary, model)
    if world_of(program) > 64:
        return
    if [e["id"] for e in program["events"]] != list(range(len(program["events"]))):
        yield "ids are not dense"
    if any(e["repeat"] != 1 for e in program["events"]):
        yield "repeat without --summary"
    for check in (check_bytes, check_mirrors, check_fingerprint, check_messages):
        yield from check(program)
    yield from check_summary(program, predict(binary, model, "--summary"))
    yield from check_rank(binary, model, program)


def controls(binary, models):
    """What must be noticed: each check finds the fault that is put in."""
    def faulty(model, change, check):
        program = predict(binary, next(m for m in models if Path(m).stem == model))
        change(program)
        if not list(check(program)):
            yield f"{check.__name__} notices nothing in a broken {model}"

    def more_wire(p):
        p["events"][0]["wire_bytes"] += 1

    def more_rows(p):
        next(e for e in p["events"] if e["op"] == "all_to_all")["splits"]["send"][0] += 1

    def no_receive(p):
        p["events"].remove(next(e for e in p["events"] if e["op"] == "recv"))

    yield from faulty("tp_ar_b128", more_wire, check_bytes)
    yield from faulty("ep_skewed", more_rows, check_bytes)
    yield from faulty("ep_skewed", more_rows, check_mirrors)
    yield from faulty("pp_mb8", no_receive, check_messages)
    yield from faulty("pp_mb8", no_receive, check_fingerprint)


def main(binary, *models):
    bad = 0
    for line in controls(binary, models):
        print(line)
        bad += 1
    for model in models:
        for line in problems(binary, model):
            print(f"{Path(model).name}: {line}")
            bad += 1
    print(f"{len(models)} models, {bad} problems")
    return bad or not models


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:]) else 0)

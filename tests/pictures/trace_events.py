"""Reads a Trace Event file as Perfetto's importer does, but forgives nothing.

What Perfetto (src/trace_processor/importers, docs/getting-started/other-formats.md) does and what
follows for a file: process and thread 0 are its own, so numbers start at 1; old versions look a
thread's name up by its number alone, so no two processes share one; slices of a thread must nest,
ours never even overlap; a flow binds to the latest slice of its thread, in the order of time and
then of the file, and its two ends must agree in id, name and category; a time in scientific
notation or an escape \\uXXXX is not read by all versions.
"""

import json
import re

PHASES = {"M", "X", "s", "f", "C"}
NAMES = {"process_name": "name", "thread_name": "name", "process_sort_index": "sort_index",
         "thread_sort_index": "sort_index"}


def well_formed(events):
    """What each kind of event must have."""
    bad, told, process_of = [], set(), {}
    for e in events:
        ph = e.get("ph")
        if ph not in PHASES or not e.get("name") or e.get("pid", 0) < 1 or e.get("tid", 0) < 1:
            bad.append(f"no event: {e}")
            continue
        if process_of.setdefault(e["tid"], e["pid"]) != e["pid"]:
            bad.append(f"thread {e['tid']} is in two processes")
        if ph == "M":
            if set(e["args"]) != {NAMES.get(e["name"])} or "ts" in e:
                bad.append(f"no metadata: {e}")
            told |= {("process", e["pid"])} if e["name"] == "process_name" else set()
            told |= {("thread", e["tid"])} if e["name"] == "thread_name" else set()
        elif ("process", e["pid"]) not in told or ("thread", e["tid"]) not in told:
            bad.append(f"before its process and thread are named: {e}")
        elif not e.get("ts", -1) >= 0 or (ph == "X" and not e.get("dur", -1) >= 0):
            bad.append(f"no time: {e}")
        elif ph == "C" and not all(isinstance(v, (int, float)) for v in e["args"].values()):
            bad.append(f"no number: {e}")
    return bad


def in_order(events):
    timed = [e["ts"] for e in events if e["ph"] != "M"]
    first = next((i for i, e in enumerate(events) if e["ph"] != "M"), len(events))
    bad = [] if timed == sorted(timed) else ["events are not in the order of time"]
    return bad + ([] if len(events) - first == len(timed) else ["metadata after events"])


def bound(events):
    """Plays the slices and what the flows bind to."""
    bad, latest, flows = [], {}, {}
    for e in events:
        if e["ph"] == "X":
            before = latest.get(e["tid"])
            if before and before["ts"] + before["dur"] > e["ts"] + 1e-6:
                bad.append(f"slices overlap: {before} {e}")
            latest[e["tid"]] = e
        elif e["ph"] in "sf":
            at = latest.get(e["tid"])
            if not at or not at["ts"] <= e["ts"] < at["ts"] + at["dur"]:
                bad.append(f"a flow in no slice: {e}")
            if e["ph"] == "f" and e.get("bp") != "e":
                bad.append(f"a flow that binds to the next slice: {e}")
            flows.setdefault((e["id"], e["name"], e["cat"]), []).append((e["ph"], at))
    for key, ends in flows.items():
        if [ph for ph, _ in ends] != ["s", "f"]:
            bad.append(f"a flow without both ends, in order: {key} {ends}")
            continue
        send, receive = (at for _, at in ends)
        same = send and receive and all(
            send["args"][k] == receive["args"][k] for k in ("microbatch",))
        if not same or send["cat"].replace("send", "recv") != receive["cat"]:
            bad.append(f"a flow from {send} to {receive}")
    ids = [key[0] for key in flows]
    return bad + ([] if len(set(ids)) == len(ids) else ["an id of two flows"])


def problems(text):
    trace = json.loads(text)
    bad = ["a time in scientific notation"] if re.search(r'"(ts|dur)":[^,}]*[eE]', text) else []
    bad += ["an escape that not all versions read"] if re.search(r"(?<!\\)(\\\\)*\\u[0-9a-f]{4}", text) else []
    events = trace["traceEvents"]
    bad += well_formed(events)
    return bad or in_order(events) + bound(events)

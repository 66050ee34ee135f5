#!/usr/bin/env python3
"""Records what real PyTorch issues for a table of small models, one JSON file each. See README.md.

python record.py             all of them
python record.py NAME ...    only these
python record.py --check     record again and compare with the files instead of writing them
python record.py --list      the table
"""

import argparse
import json
import pathlib
import sys

import torch

from agreement import check_world
from recorder import HOW, record
from table import TABLE

HERE = pathlib.Path(__file__).parent


def recording(model):
    events = record(model.program, model.arguments, model.axes, model.how)
    check_world(model.name, events)
    return {
        "schema": "shape2trace.recorded/1",
        "name": model.name,
        "model": f"{model.folder}/{model.name}.json" if model.folder else None,
        "torch": torch.__version__.partition("+")[0],
        "how": model.how,
        "world": len(events),
        "mesh": [{"name": name, "size": size} for name, size in model.axes.items()],
        "remarks": [HOW[model.how], *model.remarks],
        "ranks": [{"rank": rank, "events": mine} for rank, mine in enumerate(events)],
    }


def text(document):
    """One line per event, so that a change of one event is a change of one line."""
    ranks = ",\n".join(rank_text(rank) for rank in document["ranks"])
    head = ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in document.items() if k != "ranks")
    return "{\n" + head + ',\n "ranks": [\n' + ranks + "\n ]\n}\n"


def rank_text(rank):
    events = ",\n".join("   " + json.dumps(event, separators=(",", ":")) for event in rank["events"])
    return f'  {{"rank": {rank["rank"]}, "events": [\n{events}\n  ]}}'


def show(model):
    print(f"{model.name:30} {model.how:10} {model.axes}")


def write(model):
    path = HERE / f"{model.name}.json"
    path.write_text(text(recording(model)))
    print(f"{path.name:36} {path.stat().st_size:6} bytes", flush=True)


def check(model):
    """Whether this PyTorch issues what the file holds. The version that recorded it may be another."""
    now, then = recording(model), json.loads((HERE / f"{model.name}.json").read_text())
    same = json.loads(json.dumps(now["ranks"])) == then["ranks"]
    print(f"{model.name:36} {'same' if same else 'DIFFERENT'}", flush=True)
    return same


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--list", dest="act", action="store_const", const=show, default=write)
    parser.add_argument("--check", dest="act", action="store_const", const=check)
    options = parser.parse_args()
    unknown = set(options.names) - {model.name for model in TABLE}
    if unknown:
        sys.exit(f"no such model: {', '.join(sorted(unknown))}")
    chosen = [model for model in TABLE if not options.names or model.name in options.names]
    sys.exit(1 if False in [options.act(model) for model in chosen] else 0)


if __name__ == "__main__":
    main()

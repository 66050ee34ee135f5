"""Judges JSON files by the schema that their "schema" field names. Usage: golden.py ROOT FILE..."""

import json
import sys
from pathlib import Path

from validate import errors, schemas


def main(root, *files):
    validators, bad, judged = schemas(Path(root)), 0, 0
    for file in files:
        document = json.loads(Path(file).read_text(encoding="utf-8"))
        kind = document["schema"].removeprefix("shape2trace.").split("/")[0]
        if kind not in validators:
            continue
        judged += 1
        for line in errors(validators[kind], document):
            print(f"{Path(file).name}: {line}")
            bad += 1
        if not errors(validators[kind], document | {"unknown_key": 1}):
            print(f"{Path(file).name}: an unknown key is accepted")
            bad += 1
    print(f"{judged} files judged, {bad} problems")
    return bad or not judged


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:]) else 0)

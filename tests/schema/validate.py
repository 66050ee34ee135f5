"""Judges the published schemas with an independent validator (Debian's python3-jsonschema).

Every model must satisfy schemas/model.schema.json, and what each command prints as JSON the schema
named in its "schema" field. A model that the schema accepts but the reader refuses is a failure
too. Usage: validate.py SHAPE2TRACE ROOT [MODEL...]; without MODEL, all of models/.
"""

import copy
import json
import subprocess
import sys
from pathlib import Path

import jsonschema

# Commands whose JSON has a published schema.
COMMANDS = [["predict"], ["predict", "--summary"], ["groups"], ["schedule"], ["verify"]]


def schemas(root):
    found = {}
    for path in sorted((root / "schemas").glob("*.schema.json")):
        schema = json.loads(path.read_text(encoding="utf-8"))
        jsonschema.Draft7Validator.check_schema(schema)
        found[path.name.removesuffix(".schema.json")] = jsonschema.Draft7Validator(schema)
    return found


def errors(validator, document):
    return [f"/{'/'.join(map(str, e.absolute_path))}: {e.message[:200]}"
            for e in validator.iter_errors(document)]


def output(binary, command, model, *words):
    result = subprocess.run([binary, *command, model, *words, "--format", "json"],
                            capture_output=True, text=True, timeout=120)
    if result.returncode:
        return None, [f"exit {result.returncode}: {result.stderr.strip()}"]
    return json.loads(result.stdout), []


def check_model(path, binary, validators):
    document = json.loads(path.read_text(encoding="utf-8"))
    bad = errors(validators["model"], document)
    for command in COMMANDS:
        printed, wrong = output(binary, command, path)
        bad += wrong
        if printed:
            kind = printed["schema"].removeprefix("shape2trace.").split("/")[0]
            bad += errors(validators[kind], printed)
            if command == ["predict"]:
                bad += check_explain(path, binary, validators["explain"], printed)
    return bad


def check_explain(path, binary, validator, program):
    """The first event, what is pruned, and everything at once."""
    bad = []
    words = [str(e["id"]) for e in program["events"][:1]] + [p["id"] for p in program["pruned"][:1]]
    for word in words + (["*"] if words else []):
        printed, wrong = output(binary, ["explain"], path, word)
        bad += wrong
        bad += errors(validator, printed) if printed else []
    return bad


def check_large_ring(root, binary, validators):
    """More ranks in a ring than are spelled out."""
    path = root / "models" / "configs" / "llama-3.1-8b.json"
    plan = ["--profile", "torchtitan", "--cp", "128", "--seq", "8192"]
    bad = []
    for kind, words in [("program", ["predict"]), ("explain", ["explain"])]:
        query = ["all_to_all"] if kind == "explain" else []
        printed, wrong = output(binary, words, path, *query, *plan)
        bad += wrong + (errors(validators[kind], printed) if printed else [])
    return bad


def strictness(validators, document):
    """Negative controls: a schema that accepts anything proves nothing."""
    broken = []
    for key, value in [("unknown_key", 1), ("mesh", []), ("ops", [{"op": 1}]), ("schema", "x")]:
        broken.append(copy.deepcopy(document) | {key: value})
    return [f"the model schema accepts {key}" for key, b in
            zip(["an unknown key", "a list as mesh", "a number as op", "another schema"], broken)
            if not errors(validators["model"], b)]


def main(binary, root, *models):
    root = Path(root)
    validators = schemas(root)
    paths = [Path(m) for m in models] or sorted((root / "models").glob("*.json"))
    bad = 0
    for path in paths:
        for line in check_model(path, binary, validators):
            print(f"{path.name}: {line}")
            bad += 1
    for line in [] if models else check_large_ring(root, binary, validators):
        print(f"a large ring: {line}")
        bad += 1
    for line in strictness(validators, json.loads(paths[0].read_text(encoding="utf-8"))):
        print(line)
        bad += 1
    print(f"{len(paths)} models, {len(validators)} schemas, {bad} problems")
    return bad


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:]) else 0)

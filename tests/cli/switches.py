"""Every switch that `list switches` shows for model files is one that a model may state, with each
of its values; and the schema has the same switches and values, and no others.

Usage: switches.py SHAPE2TRACE MODEL SCHEMA
"""

import json
import subprocess
import sys


def run(binary, *words, text=None):
    return subprocess.run([binary, *words], input=text, capture_output=True, text=True, timeout=60)


def words_of(schema, rule):
    if "$ref" in rule:
        rule = schema["definitions"][rule["$ref"].rsplit("/", 1)[1]]
    return {"false", "true"} if rule.get("type") == "boolean" else set(rule["enum"])


def differences(rows, schema):
    """Between the table and the schema, in both directions."""
    rules = schema["definitions"]["switches"]["properties"]
    named = {name: words_of(schema, rule) for name, rule in rules.items()}
    listed = {row["name"]: set(row["values"].split()) for row in rows}
    return [f"{name}: listed {listed.get(name)}, in the schema {named.get(name)}"
            for name in sorted(named.keys() | listed.keys()) if named.get(name) != listed.get(name)]


def main(binary, model, schema):
    rows = json.loads(run(binary, "list", "switches", "--format", "json").stdout)["rows"]
    rows = [row for row in rows if row["stated in"] == "a model file"]
    document = json.loads(open(model, encoding="utf-8").read())
    odd = differences(rows, json.loads(open(schema, encoding="utf-8").read()))
    for line in odd:
        print(line)
    bad, tried = len(odd), 0
    for row in rows:
        for value in row["values"].split():
            stated = {"false": False, "true": True}.get(value, value)
            document["switches"] = {row["name"]: stated}
            result = run(binary, "predict", "-", text=json.dumps(document))
            tried += 1
            # Any other refusal is about the model, which the value reached.
            if "[unknown-" in result.stderr or "[wrong-type]" in result.stderr:
                print(f"{row['name']}: {value}: {result.stderr}")
                bad += 1
    document["switches"] = {"no_such_switch": 1}
    if "[unknown-key]" not in run(binary, "predict", "-", text=json.dumps(document)).stderr:
        print("an unknown switch is accepted")
        bad += 1
    print(f"{len(rows)} switches, {tried} values, {bad} problems")
    return bad or not tried


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:]) else 0)

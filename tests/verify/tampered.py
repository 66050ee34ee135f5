"""A witness that disagrees must fail the run, and say where.

Usage: tampered.py PROGRAM BACKEND WITNESS LIBRARIES MODEL
LIBRARIES holds a witness that lies when S2T_TAMPER asks for it (tamper.cc).
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

# wish -> what the sentence must say. MODEL is tp_sp_b128: call 2 of rank 1 is event 2.
CASES = {
    "": None,
    "drop:1:2": ["rank 1: event 2 (", "saw as call 2 "],
    "drop:3:5": ["rank 3: event 5 (", "nothing more"],
    "resize:1:2": ["rank 1: event 2 (", "saw as call 2 "],
    "regroup:2:0": ["rank 2: event 0 (", "saw as call 0 ", "xtp1"],
    "cut:1:2": ["rank 1: ", "is cut short"],
}


def run(program, backend, witness, libraries, model, wish):
    environment = {**os.environ, "S2T_TAMPER": f"{witness}:{wish}", "S2T_MODULE_PATH": libraries}
    done = subprocess.run([program, "verify", model, "--backend", backend, "--format", "json"],
                          env=environment, text=True, capture_output=True, timeout=60)
    return done.returncode, json.loads(done.stdout)


def faults(code, report, witness, wanted):
    check = next(c for c in report["checks"] if c["name"] == f"witness_{witness}")
    others = [c["name"] for c in report["checks"] if not c["passed"] and c is not check]
    if others:
        yield f"{others} failed too"
    if wanted is None:
        if code != 0 or not check["passed"]:
            yield f"exit {code} without tampering: {check['what']}"
        return
    if code != 1 or report["match"] or check["passed"]:
        yield f"exit {code}, match {report['match']}, passed {check['passed']}"
    yield from (f"{text!r} is not in {check['what']!r}" for text in wanted
                if text not in check["what"])
    texts = [d["text"] for d in report["differences"] if d.get("witness") == witness]
    if check["what"] not in texts:
        yield f"{check['what']!r} is not among the differences"


# The same model with short dims: only its calls matter here.
def shrunk(model, folder):
    text = Path(model).read_text(encoding="utf-8").replace("1024", "32").replace("512", "16")
    path = Path(folder) / "model.json"
    path.write_text(text, encoding="utf-8")
    return str(path)


def main(program, backend, witness, libraries, model):
    with tempfile.TemporaryDirectory() as folder:
        return check_all(program, backend, witness, libraries, shrunk(model, folder))


def check_all(program, backend, witness, libraries, model):
    bad = 0
    for wish, wanted in CASES.items():
        code, report = run(program, backend, witness, libraries, model, wish)
        found = list(faults(code, report, witness, wanted))
        bad += bool(found)
        print(f"{witness} {wish or 'honest':<12} {'FAILED: ' + '; '.join(found) if found else 'ok'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

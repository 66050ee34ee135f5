"""Whole runs of `verify` on the host backend, for a program built with a sanitizer.

Usage: whole_runs.py PROGRAM MODEL...    (tp_pp_dp_8ranks and tp_sp_b128 among them)

Every model with few parameters is run: the others are the same plans with more numbers. Then one
over 64 ranks, and one that is interrupted in the middle.
"""

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import runs  # noqa: E402

FEW = 200_000  # parameters
CROWD = {'"tp", "size": 2': '"tp", "size": 4', '"dp", "size": 2': '"dp", "size": 8'}
LARGE = {"1024": "4096", "512": "2048"}
FOUND = ("Sanitizer", "runtime error")  # the first words of all their reports


def changed(model, folder, changes):
    text = Path(model).read_text(encoding="utf-8")
    for old, new in changes.items():
        if old not in text:
            raise RuntimeError(f"{model} has no {old}")
        text = text.replace(old, new)
    path = Path(folder) / Path(model).name
    path.write_text(text, encoding="utf-8")
    return str(path)


def run(program, model, expected, interrupt_after=None):
    start = time.monotonic()
    child = subprocess.Popen([program, "verify", model], text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
    if interrupt_after is not None:
        time.sleep(interrupt_after)
        child.send_signal(signal.SIGTERM)  # which nobody starts us to ignore
    out, err = child.communicate(timeout=300)
    ok = child.returncode == expected and not any(word in err for word in FOUND)
    print(f"{Path(model).stem:<30} {time.monotonic() - start:5.1f} s  {'ok' if ok else 'FAILED'}",
          flush=True)
    if not ok:
        print(f"exit {child.returncode}\n{out}\n{err}", flush=True)
    return ok


def main(program, *models):
    small = [m for m in models if runs.predict(program, m)["parameters"]["total"] < FEW]
    by_name = {Path(m).stem: m for m in models}
    results = [run(program, m, 0) for m in small]
    with tempfile.TemporaryDirectory() as folder:
        results.append(run(program, changed(by_name["tp_pp_dp_8ranks"], folder, CROWD), 0))
        results.append(run(program, changed(by_name["tp_sp_b128"], folder, LARGE), 1, 3))
    print(f"{len(results)} runs, {results.count(False)} failed; "
          f"{len(models) - len(small)} models are large and were left out")
    return 1 if not all(results) or not small else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

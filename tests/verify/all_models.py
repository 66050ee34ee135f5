"""Verifies every model of 2 to 8 ranks on one backend, with its witnesses, and prints a table.

Usage: all_models.py PROGRAM BACKEND MODEL...    (backend nccl: on stand-ins, and only there)
"""

import json
import sys
from pathlib import Path

import jsonschema

sys.path.insert(0, str(Path(__file__).parent))
import runs  # noqa: E402

WITNESSES = {"mpi": ["pmpi"], "nccl": ["pnccl", "plugin"]}
# Sums over the ranks. `calls` and `kernels` are predicted.
COLUMNS = {"mpi": ["calls", "recorded", "pmpi"],
           "nccl": ["calls", "recorded", "pnccl", "kernels", "launched", "plugin"]}
SCHEMA = Path(__file__).parents[2] / "schemas/verify.schema.json"


def main(program, backend, *models):
    schema = jsonschema.Draft7Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    columns = COLUMNS[backend]
    print("stand-ins on the CPU, no evidence about any GPU" if backend == "nccl" else backend)
    print(f"{'model':<26} {'ranks':>5} " + " ".join(f"{c:>8}" for c in columns) + "     s  result")
    done, failed, alone = 0, 0, []
    for run in runs.verify_all(program, models, backend, WITNESSES[backend], {}, jobs=2):
        if isinstance(run, tuple):
            alone.append(run[0])
            continue
        if not run.wrong and run.stand_in != (backend == "nccl"):
            run.wrong.append(f"stand_in is {run.stand_in}")
        kernels = "cuda" if backend == "nccl" else "host"
        if not run.wrong and run.report["kernels"] != kernels:
            run.wrong.append(f"ops were computed by {run.report['kernels']} kernels")
        if run.report:
            run.wrong += [f"schema: {e.message}" for e in schema.iter_errors(run.report)]
        cells = " ".join(f"{sum(run.counts[c]) if c in run.counts else '-':>8}" for c in columns)
        print(f"{run.model:<26} {run.world:>5} {cells} {run.seconds:5.1f}  "
              f"{'ok' if run.ok else 'FAILED'}", flush=True)
        for sentence in run.wrong:
            print(f"    {sentence}")
        done, failed = done + 1, failed + (not run.ok)
    print(f"{done} models, {failed} failed; of one rank: {', '.join(alone) or 'none'}")
    return 1 if failed or done == 0 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""Ranks that mpirun started by hand: whoever starts them loads the witness, and is told if not.

Usage: started_by_others.py PROGRAM LIBRARY MODEL    (LIBRARY: the MPI witness; MODEL of two ranks)
"""

import os
import subprocess
import sys
import tempfile

MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "pml",
          "ob1", "--mca", "btl", "self,vader", "--mca", "btl_vader_single_copy_mechanism", "none",
          "--mca", "mpi_yield_when_idle", "1", "--mca", "plm", "isolated"]


def run(program, model, variables):
    passed_on = [word for v in variables for word in ("-x", v)]
    with tempfile.TemporaryDirectory() as session:
        done = subprocess.run(
            [*MPIRUN, *passed_on, "-n", "2", program, "verify", model, "--backend", "mpi"],
            env={**os.environ, "OMPI_MCA_orte_tmpdir_base": session,
                 "OMPI_MCA_btl_vader_backing_directory": session},
            text=True, capture_output=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def main(program, library, model):
    bad = 0

    def expect(what, variables, code, *sentences, operand=model):
        nonlocal bad
        found, text = run(program, operand, variables)
        ok = found == code and all(s in text for s in sentences)
        bad += not ok
        print(f"{what:<28} {'ok' if ok else f'FAILED: exit {found}: {text}'}")

    with tempfile.TemporaryDirectory() as folder:
        watched = [f"S2T_WITNESS_DIR={folder}", f"LD_PRELOAD={library}"]
        expect("watched", watched, 0, "witness_pmpi     ok", "2 calls of 2 ranks, as predicted")
        expect("into the same folder again", watched, 1, "the folder is not fresh")
    expect("not watched", [], 0, "Witness pmpi took no part: nobody loaded it into the ranks")
    expect("a model for one rank only", [], 2, "Name a file that all ranks can read.", operand="-")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

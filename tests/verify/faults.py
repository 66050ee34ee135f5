"""What `verify` says when something is absent, and when a rank fails.

Usage: faults.py PROGRAM MPI_MODULE STANDINS MODEL    ("-" for what was not built)
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def run(program, model, backend, *more, **variables):
    done = subprocess.run([program, "verify", model, "--backend", backend, *more],
                          env={**os.environ, **variables}, text=True, capture_output=True,
                          timeout=60)
    return done.returncode, done.stdout, done.stderr


class Judge:
    def __init__(self):
        self.bad = 0

    def expect(self, what, outcome, code, *sentences):
        text = outcome[1] + outcome[2]
        missing = [s for s in sentences if s not in text]
        ok = outcome[0] == code and not missing
        self.bad += not ok
        print(f"{what:<34} {'ok' if ok else f'FAILED: exit {outcome[0]}, without {missing}: {text}'}")


def absent(judge, program, mpi_module, model):
    """A program that stands alone, then with one module and no witness."""
    with tempfile.TemporaryDirectory() as folder:
        alone = str(shutil.copy(program, folder))
        judge.expect("no MPI module", run(alone, model, "mpi"), 77,
                     "backend mpi cannot run here: s2t_mpi.so was not built, or not found here")
        judge.expect("no NCCL module", run(alone, model, "nccl"), 77, "s2t_nccl.so was not built")
        judge.expect("host needs neither", run(alone, model, "host"), 0, "Everything ran as predicted")
        if mpi_module == "-":
            return
        shutil.copy(mpi_module, folder)
        judge.expect("no mpirun", run(alone, model, "mpi", PATH="/nowhere"), 77,
                     "mpirun is not in PATH")
        judge.expect("no MPI witness", run(alone, model, "mpi"), 0,
                     "Witness pmpi took no part: libs2t_pmpi.so was not built, or not found here.")


def never_joins(judge, program, model):
    """An mpirun that starts something else as rank 1, which ends at once: mpirun ends the others.
    It does not always say because of whom."""
    for silent in ("", " 2>/dev/null"):
        one_ends(judge, program, model, silent)


def one_ends(judge, program, model, silent):
    with tempfile.TemporaryDirectory() as folder:
        scripts = {
            "mpirun": f'#!/bin/bash\nours={program} other={folder}/rank\n'
                      f'exec {shutil.which("mpirun")} "${{@/#$ours/$other}}"{silent}\n',
            "rank": f'#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" = 1 ] && exit 7\nexec {program} "$@"\n'}
        for name, text in scripts.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
            (Path(folder) / name).chmod(0o755)
        judge.expect("a rank never joins" + (", unsaid" if silent else ""),
                     run(program, model, "mpi", PATH=folder + ":" + os.environ["PATH"]), 1,
                     "rank 1 died in its start: its process ended before it joined: its process ended "
                     "with exit code 7")


def too_large(judge, program, model):
    """Refused before anything is allocated; with one that fits, memory may still end too soon."""
    text = Path(model).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        large = Path(folder) / "large.json"
        large.write_text(text.replace("64", "640000").replace("32", "320000"), encoding="utf-8")
        judge.expect("a model beyond the memory", run(program, str(large), "host"), 2,
                     "large.json: running this model takes about ", "that are free here",
                     "[too-little-memory]")
    # How much of the address space a thread reserves differs between systems; in no case it crashes.
    said = {0: "Everything ran as predicted", 1: "rank ", 2: "[too-little-memory]"}
    for megabytes in range(25, 125, 10):
        limited = f"ulimit -v {megabytes}000; exec \"$@\""
        done = subprocess.run(["sh", "-c", limited, "sh", program, "verify", model], text=True,
                              capture_output=True, timeout=60)
        code = done.returncode if done.returncode in said else 2
        judge.expect(f"{megabytes} MB of addresses",
                     (done.returncode, done.stdout, done.stderr), code, said[code])


def few_files(judge, program, backend, model):
    """Ranks that are processes need pipes and sockets; a limit of the shell's own is raised."""
    for limit, code, words in [("-n 24", 2, "a process may have 24 files open here (ulimit -n)"),
                               ("-Sn 24", 0, "Everything ran as predicted")]:
        done = subprocess.run(["sh", "-c", f"ulimit {limit}; exec \"$@\"", "sh", program, "verify",
                               model, "--backend", backend], text=True, capture_output=True,
                              timeout=60)
        judge.expect(f"ulimit {limit}", (done.returncode, done.stdout, done.stderr), code, words)


def refused(judge, program, backend, model):
    """What cannot run is said before anything is started."""
    with tempfile.TemporaryDirectory() as folder:
        narrow = Path(folder) / "f8.json"
        narrow.write_text(json.dumps({
            "schema": "shape2trace.model/1", "mesh": {"axes": [{"name": "tp", "size": 2}]},
            "tensors": {"x": {"shape": [4, 8], "dtype": "f8"},
                        "w": {"shape": [8, 8], "parameter": True, "layout": {"tp": "S(1)"},
                              "dtype": "f8"}},
            "ops": [{"op": "linear", "inputs": ["x", "w"], "output": "y"},
                    {"op": "mean_square", "inputs": ["y"], "output": "loss"}], "loss": "loss"}),
            encoding="utf-8")
        judge.expect("float8 sums", run(program, str(narrow), "host"), 2,
                     "sums float8, which no backend can", "[float8-sum]")
        judge.expect("used witness folder",
                     run(program, model, backend, S2T_WITNESS_DIR=folder), 2,
                     "S2T_WITNESS_DIR names", "where files are; expected an empty folder")
        judge.expect("no witness folder",
                     run(program, model, backend, S2T_WITNESS_DIR=f"{folder}/no/where"), 2,
                     "which is no folder")
        judge.expect("no temporary folder",
                     run(program, model, backend, TMPDIR=f"{folder}/nowhere"), 2, "TMPDIR names")


def failing(judge, program, standins, model):
    """Stand-ins that play the faults of a GPU."""
    def nccl(fault, *more):
        return run(program, model, "nccl", "--timeout", "3", *more, LD_LIBRARY_PATH=standins,
                   S2T_STANDIN_FAULT=fault)

    judge.expect("no driver", nccl("no_driver"), 77, "no NVIDIA driver")
    judge.expect("an old NCCL", nccl("nccl_version=21703"), 77, "NCCL 2.17.3 is too old")
    judge.expect("a rank is killed", nccl("die=1:1"), 1,
                 "rank 1 died in all_reduce (sum) of 4,096 float32 on \"tp0\" [event 0 tp0]: its "
                 "process was ended by signal 9 (Killed)", "That stopped rank 0 too.")
    judge.expect("a kernel never ends", nccl("stall=1:1"), 1,
                 "in all_reduce (sum) of 4,096 float32 on \"tp0\" [event 0 tp0]: the GPU did not end its "
                 "work in time")
    judge.expect("out of memory", nccl("oom=20000"), 1, "out of memory: ", "before event 0", ", after")
    judge.expect("no cuBLAS", nccl("no_cublas"), 1, "cublasCreate: ")
    code, out, _ = nccl("die=1:1", "--format", "json")
    report = json.loads(out)
    cause = report["failures"][0]
    judge.expect("the same in JSON", (code, out, ""), 1, '"match": false', '"checks": []')
    judge.expect("its cause comes first", (cause["rank"], cause["reason"], ""), 1, "died")


def main(program, mpi_module, standins, model):
    judge = Judge()
    absent(judge, program, mpi_module, model)
    too_large(judge, program, model)
    if mpi_module != "-":
        never_joins(judge, program, model)
        refused(judge, program, "mpi", model)
        few_files(judge, program, "mpi", model)
    if standins != "-":
        failing(judge, program, standins, model)
    return 1 if judge.bad else 0


if __name__ == "__main__":
    sys.exit(main(*map(str, map(lambda a: a if a == "-" else Path(a).resolve(), sys.argv[1:]))))

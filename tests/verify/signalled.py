"""One rank of `verify` is put to sleep, or killed: the report names it, and nobody else.

Usage: signalled.py PROGRAM BACKEND MODEL
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from interrupted import MARK, RANKS, larger, marked, shared_memory, wait_until  # noqa: E402

RANK = re.compile(rb"(?:^|\0)(?:S2T_RANK|OMPI_COMM_WORLD_RANK)=(\d+)")
TIMEOUT = 3  # seconds
GRACE = 12  # for the ranks to end: less than a second on an idle machine


def ranks(mark):
    """rank -> process"""
    found = {}
    for pid in marked(mark):
        try:
            if match := RANK.search((Path("/proc") / str(pid) / "environ").read_bytes()):
                found[int(match[1])] = pid
        except OSError:
            pass  # ended meanwhile
    return found


def has_joined(process):
    """MPI and CUDA start threads; a rank comes to them when it has joined the run."""
    try:
        return len(os.listdir(f"/proc/{process}/task")) > 1
    except OSError:
        return True


def attempt(program, backend, model, number, rank, delay):
    mark = uuid.uuid4().hex
    run = subprocess.Popen([program, "verify", model, "--backend", backend, "--timeout",
                            str(TIMEOUT), "--format", "json"], env={**os.environ, MARK: mark},
                           text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if not wait_until(lambda: len(ranks(mark)) == RANKS, 30):
        run.kill()
        return f"the ranks did not start: {run.communicate()[1]}"
    if number == signal.SIGSTOP:
        wait_until(lambda: all(map(has_joined, ranks(mark).values())), 30)
    time.sleep(delay)
    os.kill(ranks(mark)[rank], number)
    start = time.monotonic()
    try:
        out, err = run.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        run.kill()
        return "it did not end within 30 s"
    took = time.monotonic() - start
    if not wait_until(lambda: not marked(mark), 5):
        return f"{len(marked(mark))} processes are left"
    if run.returncode != 1:
        return f"exit {run.returncode}: {out}{err}"
    texts = {failure["text"] for failure in json.loads(out)["failures"]}
    how = "was stopped by a signal, last seen" if number == signal.SIGSTOP else "died"
    text = max(texts)
    if len(texts) != 1 or f"rank {rank} {how} " not in text:
        return f"not rank {rank} alone is named: {texts}"
    # Where it was: an event, or the set-up before the first.
    if not re.search(r'\[event \d+ \w+\]|before event \d+|creating the group|its start', text):
        return f"no event is named: {text}"
    limit = GRACE + (TIMEOUT if number == signal.SIGSTOP else 0)
    return f"it took {took:.1f} s" if took > limit else ""


def launcher_killed(program, model):
    """mpirun itself: no rank is to blame, nothing stays behind."""
    mark, before = uuid.uuid4().hex, shared_memory()
    with tempfile.TemporaryDirectory() as temporary:
        run = subprocess.Popen([program, "verify", model, "--backend", "mpi"], text=True,
                               env={**os.environ, MARK: mark, "TMPDIR": temporary},
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if not wait_until(lambda: len(ranks(mark)) == RANKS, 30):
            run.kill()
            return f"the ranks did not start: {run.communicate()[1]}"
        wait_until(lambda: all(map(has_joined, ranks(mark).values())), 30)
        for process in marked(mark):
            if Path(f"/proc/{process}/comm").read_text(encoding="utf-8").strip() == "mpirun":
                os.kill(process, signal.SIGKILL)
        out, err = run.communicate(timeout=30)
        files = os.listdir(temporary)
    if run.returncode != 1 or "mpirun: its process was ended by signal 9" not in out or " died " in out:
        return f"exit {run.returncode}: {out}{err}"
    left = [*files, *(shared_memory() - before)]
    return f"left behind: {left}" if left or not wait_until(lambda: not marked(mark), 5) else ""


def main(program, backend, model):
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        large = larger(model, folder)
        for number, rank, delay in ((signal.SIGSTOP, 1, 0), (signal.SIGSTOP, 3, 0.7),
                                    (signal.SIGKILL, 2, 0), (signal.SIGKILL, 1, 0.3),
                                    (signal.SIGKILL, 3, 0.6), (signal.SIGKILL, 0, 0.9)):
            wrong = attempt(program, backend, large, number, rank, delay)
            bad += bool(wrong)
            print(f"{backend} {number.name} of rank {rank} after {delay} s  "
                  f"{'FAILED: ' + wrong if wrong else 'ok'}", flush=True)
        if backend == "mpi":
            wrong = launcher_killed(program, large)
            bad += bool(wrong)
            print(f"mpi SIGKILL of mpirun  {'FAILED: ' + wrong if wrong else 'ok'}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

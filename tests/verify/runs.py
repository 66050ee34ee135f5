"""Runs `shape2trace verify` on many models and puts four counts side by side, per model and rank:
what was predicted, what the runtime recorded, and what each witness saw.

The program compares them call by call; here they are counted once more, from its JSON, so that a
table can be read and a witness that was not there cannot go unnoticed.
"""

import json
import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field


@dataclass
class Run:
    model: str
    world: int
    seconds: float = 0
    exit_code: int = 0
    stand_in: bool = False
    match: bool = False
    counts: dict = field(default_factory=dict)  # column -> list by rank
    absent: dict = field(default_factory=dict)  # witness -> why
    wrong: list = field(default_factory=list)  # sentences
    report: dict = None  # what verify printed

    @property
    def ok(self):
        return not self.wrong


def call(command, environment, seconds):
    """Exit code (None: too long), standard output, standard error. Leaves nothing running."""
    child = subprocess.Popen(command, env={**os.environ, **environment}, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             start_new_session=True)
    try:
        out, err = child.communicate(timeout=seconds)
        return child.returncode, out, err
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGTERM)  # it ends its ranks, which lead groups of their own
        try:
            out, err = child.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            out, err = child.communicate()
        return None, out, err


def predict(program, model):
    code, out, err = call([program, "predict", model, "--format", "json"], {}, 60)
    if code != 0:
        raise RuntimeError(f"predict {model}: {err}")
    return json.loads(out)


def by_rank(prediction, key):
    return [sum(rank[key].values()) for rank in prediction["ranks"]]


def recorded(report, world):
    """Calls and launches per rank: calls of one batch are launched together."""
    calls, launches, last = [0] * world, [0] * world, [None] * world
    for event in report["observed"]:
        rank, batch = event["ranks"][0], event.get("batch")
        calls[rank] += 1
        launches[rank] += batch is None or batch != last[rank]
        last[rank] = batch
    return calls, launches


# Columns: whose count must equal which predicted one. pnccl sees an all-to-all as its messages, so
# its count is shown and only compared by the program itself.
EQUAL = {"recorded": "calls", "launched": "kernels", "pmpi": "calls",
         "plugin": "kernels", "cupti": "kernels"}


def judge(run, witnesses):
    predicted = {"calls": run.counts["calls"], "kernels": run.counts["kernels"]}
    for column, what in EQUAL.items():
        if column in run.counts and run.counts[column] != predicted[what]:
            run.wrong.append(f"{column}: {run.counts[column]}, predicted {predicted[what]}")
    for witness in witnesses:
        if witness in run.absent or witness not in run.counts:
            run.wrong.append(f"{witness} took no part: {run.absent.get(witness, 'unknown')}")


def verify(program, model, prediction, backend, witnesses, environment, seconds):
    run = Run(prediction["model"], len(prediction["ranks"]))
    run.counts = {k: by_rank(prediction, k2) for k, k2 in
                  (("calls", "operations"), ("kernels", "kernels"))}
    start = time.monotonic()
    code, out, err = call([program, "verify", model, "--backend", backend, "--format", "json"],
                          environment, seconds)
    run.seconds, run.exit_code = time.monotonic() - start, code
    if code is None:
        run.wrong.append(f"took longer than {seconds} s")
        return run
    try:
        report = json.loads(out)
    except ValueError:
        run.wrong.append(f"exit {code}: {err.strip()}")
        return run
    run.report = report
    run.stand_in, run.match = report["stand_in"], report["match"]
    run.wrong += [f["text"] + "\n" + err for f in report["failures"][:1]]
    run.wrong += [f"{c['name']}: {c['what']}" for c in report["checks"] if not c["passed"]]
    if (code == 0) != run.match:
        run.wrong.append(f"exit {code}, match {run.match}")
    run.counts["recorded"], run.counts["launched"] = recorded(report, run.world)
    for w in report["witnesses"]:
        name = {"ncclprof": "plugin"}.get(w["name"], w["name"])
        if not w["took_part"]:
            run.absent[name] = w["because"]
        else:
            run.counts[name] = w["kernels" if name in ("plugin", "cupti") else "calls"]
    if not run.wrong:
        judge(run, witnesses)
    return run


def verify_all(program, models, backend, witnesses, environment, seconds=60, jobs=1,
               fits=lambda world: 2 <= world <= 8):
    """Yields runs in the order of the models, and (name, world) of those that do not fit."""
    def one(model):
        prediction = predict(program, model)
        world = len(prediction["ranks"])
        if not fits(world):
            return prediction["model"], world
        return verify(program, model, prediction, backend, witnesses, environment, seconds)

    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(one, models)

"""Ctrl-C, a polite end and a rude one, while `verify` runs: it ends soon and nothing stays behind.

Usage: interrupted.py PROGRAM BACKEND MODEL
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

MARK = "S2T_TEST_MARK"  # inherited by everything that a run starts
RANKS = 4
SOON = 8  # seconds; on an idle machine less than one
MOMENTS = 10


def marked(mark):
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            pass  # ended, or somebody else's
    return found


def wait_until(condition, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def parts(mark, pid, backend):
    """Of a run: its processes, or the threads of the one."""
    if backend != "host":
        return len(marked(mark))
    return len(os.listdir(f"/proc/{pid}/task"))


def larger(model, folder):
    """The same plan with so many numbers that its step takes seconds."""
    text = Path(model).read_text(encoding="utf-8").replace("1024", "4096").replace("512", "2048")
    path = Path(folder) / "large.json"
    path.write_text(text, encoding="utf-8")
    return str(path)


def shared_memory():
    return {p.name for p in Path("/dev/shm").iterdir() if "vader" in p.name or "s2t" in p.name}


def attempt(program, backend, model, number, temporary):
    mark = uuid.uuid4().hex
    before = shared_memory()
    run = subprocess.Popen([program, "verify", model, "--backend", backend, "--timeout", "60"],
                           env={**os.environ, MARK: mark, "TMPDIR": temporary}, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    # With all ranks there it is somewhere in the step, which takes seconds.
    if not wait_until(lambda: parts(mark, run.pid, backend) > RANKS, 30):
        run.kill()
        return f"the ranks did not start: {run.communicate()[1]}"
    time.sleep(0.3)
    run.send_signal(number)
    start = time.monotonic()
    try:
        out, err = run.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        run.kill()
        return "it did not end within 20 s"
    took = time.monotonic() - start
    if not wait_until(lambda: not marked(mark), 10):
        left = marked(mark)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        return f"{len(left)} processes are left"
    if left := shared_memory() - before:
        return f"shared memory is left: {sorted(left)}"
    if number == signal.SIGKILL:
        return ""  # its folders may stay, nobody is there to remove them
    if run.returncode != 1 or "cancelled by a signal" not in out:
        return f"exit {run.returncode}: {out}{err}"
    if backend == "host" and took > SOON:
        return f"it took {took:.1f} s"
    if left := sorted(os.listdir(temporary)):
        return f"files are left: {left}"
    return ""


def at_any_moment(program, backend, model):
    """Signals all over a short run: either everything was said before, or that it was cancelled."""
    start = time.monotonic()
    subprocess.run([program, "verify", model, "--backend", backend], stdout=subprocess.DEVNULL,
                   check=True)
    took = time.monotonic() - start
    for i in range(MOMENTS):
        before = shared_memory()
        with tempfile.TemporaryDirectory() as temporary:
            run = subprocess.Popen([program, "verify", model, "--backend", backend],
                                   env={**os.environ, "TMPDIR": temporary}, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            time.sleep(took * (i + 0.5) / MOMENTS)
            run.send_signal(signal.SIGTERM)
            out, err = run.communicate(timeout=20)
            left = sorted(os.listdir(temporary)) + sorted(shared_memory() - before)
        killed = run.returncode == -signal.SIGTERM and not out  # before it had begun, or at the end
        cancelled = run.returncode == 1 and "cancelled by a signal" in out
        done = run.returncode in (0, -signal.SIGTERM) and "Everything ran as predicted" in out
        if left or not (killed or cancelled or done):
            return f"moment {i}: exit {run.returncode}, left {left}: {out}{err}"
    return ""


def main(program, backend, model):
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        large = larger(model, folder)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
            with tempfile.TemporaryDirectory() as temporary:
                wrong = attempt(program, backend, large, number, temporary)
            bad += bool(wrong)
            print(f"{backend} {number.name:<8} {'FAILED: ' + wrong if wrong else 'ok'}")
    wrong = at_any_moment(program, backend, model)
    bad += bool(wrong)
    print(f"{backend} at any moment  {'FAILED: ' + wrong if wrong else 'ok'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

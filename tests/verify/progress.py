"""A long run says on a terminal what it does, and nowhere else.

Usage: progress.py PROGRAM MODEL
"""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def read_for(end, seconds, until=b"\0"):
    text, limit = b"", time.monotonic() + seconds
    while until not in text and (left := limit - time.monotonic()) > 0:
        if select.select([end], [], [], left)[0]:
            try:
                some = os.read(end, 4096)
            except OSError:  # the other side of a terminal is gone
                break
            if not some:
                break
            text += some
    return text


def start(program, model, stderr):
    return subprocess.Popen([program, "verify", model], stdout=subprocess.DEVNULL, stderr=stderr)


def on_a_terminal(program, model):
    ours, theirs = pty.openpty()
    run = start(program, model, theirs)
    os.close(theirs)
    shown = read_for(ours, 30, b" s\x1b[K")
    run.send_signal(signal.SIGINT)
    shown += read_for(ours, 60)
    run.wait(60)
    os.close(ours)
    if not re.search(rb"\rshape2trace: running 4 ranks on host, \d+ s\x1b\[K", shown):
        return f"the line is missing in {shown}"
    return "" if shown.endswith(b"\r\x1b[K") else f"the line is not wiped out: {shown}"


def into_a_pipe(program, model):
    run = start(program, model, subprocess.PIPE)
    text = read_for(run.stderr.fileno(), 3.5)
    run.send_signal(signal.SIGINT)
    text += run.communicate(timeout=60)[1]
    return f"{text}" if text else ""


def main(program, model):
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        text = Path(model).read_text(encoding="utf-8").replace("1024", "8192").replace("512", "4096")
        large = Path(folder) / "large.json"  # its step takes seconds on any machine
        large.write_text(text, encoding="utf-8")
        for check in (on_a_terminal, into_a_pipe):
            wrong = check(program, str(large))
            bad += bool(wrong)
            print(f"{check.__name__:<14} {'FAILED: ' + wrong if wrong else 'ok'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

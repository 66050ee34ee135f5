"""Replays command lines and compares standard output, standard error and exit code byte by byte.

A transcript holds blocks: "$ command", run by bash in an empty folder; lines "! text" that go to
standard error; the lines of standard output; "[exit N]" unless that is 0. $MODELS is the folder
models/. Usage: transcripts.py SHAPE2TRACE ROOT FILE... (--update rewrites the files; read the
difference before you commit it).
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def commands(text):
    """Leading comment, then [(command, what it prints)]."""
    head, *parts = re.split(r"^\$ (.*)\n", text, flags=re.M)
    return head, list(zip(parts[::2], parts[1::2]))


def replay(command, folder, env):
    result = subprocess.run(["bash", "-c", command], cwd=folder, env=env, text=True, timeout=60,
                            stdin=subprocess.DEVNULL, capture_output=True)
    shown = "".join(f"! {line}\n" for line in result.stderr.splitlines()) + result.stdout
    if shown and not shown.endswith("\n"):
        shown += "[no newline at the end]\n"
    if result.returncode:
        shown += f"[exit {result.returncode}]\n"
    return shown


def environment(binary, root):
    path = f"{Path(binary).resolve().parent}:{os.environ['PATH']}"
    return {"PATH": path, "MODELS": str(root / "models"), "LC_ALL": "C.UTF-8", "TERM": "xterm"}


def check(file, env, root, update):
    head, parts = commands(file.read_text(encoding="utf-8"))
    text, bad = head, 0
    with tempfile.TemporaryDirectory() as folder:
        for command, expected in parts:
            shown = replay(command, folder, env).replace(str(root), "ROOT")
            text += f"$ {command}\n{shown}"
            if shown != expected and not update:
                print(f"{file.name}: $ {command}\n--- expected\n{expected}--- printed\n{shown}---")
                bad += 1
    if update:
        file.write_text(text, encoding="utf-8")
    print(f"{file.name}: {len(parts)} commands, {bad} differ")
    return bad or not parts


def main(binary, root, *files):
    update = "--update" in files
    root = Path(root).resolve()
    env = environment(binary, root)
    bad = [check(Path(f), env, root, update) for f in files if f != "--update"]
    return any(bad) or not bad


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:]) else 0)

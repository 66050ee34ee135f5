"""Reruns the examples of README.md and docs/*.md and compares them byte by byte.

A fenced block whose first line starts with "$ shape2trace" is a transcript: each line that starts
with "$ " is run by bash in the repository root, and what follows it, up to the next such line, must
be exactly its standard output. A block marked json that states "shape2trace.model/1" is a model,
which `predict -` must accept.

Usage: examples.py SHAPE2TRACE FILE...   (--update rewrites the transcripts in place)
"""

import os
import re
import subprocess
import sys
from pathlib import Path

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


def run(command, binary, stdin=None):
    env = dict(os.environ, NO_COLOR="1", LC_ALL="C.UTF-8",
               PATH=f"{Path(binary).resolve().parent}:{os.environ['PATH']}")
    env.pop("COLUMNS", None)
    return subprocess.run(["bash", "-c", command], env=env, input=stdin or "", text=True,
                          capture_output=True, timeout=120)


def transcript(body):
    """[(command, expected output)]"""
    parts = re.split(r"^\$ (.*\n)", body, flags=re.M)[1:]
    return [(command.rstrip("\n"), output) for command, output in zip(parts[::2], parts[1::2])]


def rerun(body, binary):
    """The transcript as it comes out now, and what went wrong."""
    text, problems = "", []
    for command, expected in transcript(body):
        result = run(command, binary)
        text += f"$ {command}\n{result.stdout}"
        if result.stdout != expected:
            problems.append(f"$ {command}\n--- documented\n{expected}--- now\n{result.stdout}"
                            f"--- stderr\n{result.stderr}")
    return text, problems


def check(path, binary, update):
    problems, count = [], 0
    document = path.read_text(encoding="utf-8")

    def visit(match):
        nonlocal count
        language, body = match[1], match[2]
        if body.startswith("$ shape2trace"):
            count += 1
            text, found = rerun(body, binary)
            if update:
                return f"```{language}\n{text}```"
            problems.extend(found)
        elif language == "json" and '"shape2trace.model/1"' in body:
            count += 1
            result = run("shape2trace predict -", binary, body)
            if result.returncode:
                problems.append(f"model refused:\n{body}{result.stderr}")
        return match[0]

    rewritten = BLOCK.sub(visit, document)
    if rewritten != document:
        path.write_text(rewritten, encoding="utf-8")
    print(f"{path}: {count} examples, {len(problems)} differ")
    for problem in problems:
        print(problem)
    return len(problems)


def main(arguments):
    update = "--update" in arguments
    binary, *files = [a for a in arguments if a != "--update"]
    return sum(check(Path(f), binary, update) for f in files)


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)

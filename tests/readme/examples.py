"""Reruns the examples of README.md and docs/*.md and compares them byte by byte.

A fenced block whose first line starts with "$ shape2trace" is a transcript: each line that starts
with "$ " is run by bash in the repository root, and what follows it, up to the next such line, must
be exactly its standard output. A block marked json that states "shape2trace.model/1" is a model,
which `predict -` must accept.

Usage: examples.py SHAPE2TRACE FILE...   (--update rewrites the transcripts in place)
"""

import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))
from transcripts import commands, environment

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
ROOT = Path(__file__).resolve().parents[2]


def run(command, binary, stdin=""):
    return subprocess.run(["bash", "-c", command], cwd=ROOT, env=environment(binary, ROOT),
                          input=stdin, text=True, capture_output=True, timeout=120)


def rerun(body, binary):
    """The transcript as it comes out now, and what went wrong."""
    text, problems = "", []
    for command, expected in commands(body)[1]:
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

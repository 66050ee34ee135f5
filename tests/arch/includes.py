"""Reads every #include and reports the ones that break the house's direction of flow, and types that
two headers declare under one name: one namespace, one program, so one of the two would be wrong.

The table below is the architecture (docs/architecture.md): a folder may include itself, and what
its row names. Usage: includes.py ROOT; prints one line per violation, exit 1 if there is any.
"""

import re
import sys
from pathlib import Path

MODEL_SIDE = "base mesh layout rule ops graph"

# folder -> what it may include, both relative to the repository root. The longest match counts.
MAY_INCLUDE = {
    "analyzer/base": "",
    "analyzer/mesh": "base",
    "analyzer/layout": "base mesh",
    "analyzer/rule": "base mesh layout",
    "analyzer/ops": "base mesh layout rule",
    "analyzer/comm": "base mesh layout",
    "analyzer/graph": "base mesh layout rule ops comm",  # comm: routing tables are part of a graph
    "analyzer/io": MODEL_SIDE,
    "analyzer/program": "base mesh layout comm",
    "analyzer/forward": MODEL_SIDE + " comm",
    "analyzer/backward": MODEL_SIDE + " comm forward",
    "analyzer/schedule": MODEL_SIDE + " comm forward backward program",
    "analyzer/report": "base mesh layout comm program",
    "analyzer/trace": "base comm",
    "analyzer/compare": "base mesh layout comm program trace",
    # The whole pipeline on one screen.
    "analyzer": MODEL_SIDE + " comm forward backward schedule program io",
    "analyzer/cli": "*",
    "runtime": MODEL_SIDE + " comm forward io runtime",
    "tests": "*",
}

# Nobody on the left reaches anything on the right, however long the chain of includes.
NEVER_REACHES = [("runtime", "analyzer/backward"), ("runtime", "analyzer/schedule"),
                 ("runtime", "analyzer/report"), ("runtime", "analyzer/compare")]

# Third-party headers that only some places may see.
CONFINED = [
    (r"nlohmann/|simdjson", "JSON",
     r"analyzer/(io|report|trace)/|runtime/comm/recording|runtime/run/report"),
    (r"CLI/", "CLI11", r"analyzer/cli/"),
    (r"mpi\.h$", "MPI", r"runtime/comm/mpi/|runtime/witness/|tests/witness/"),
    (r"nccl\.h$|nccl_", "NCCL", r"runtime/comm/nccl/|runtime/witness/|tests/standins/"),
    (r"cuda|cublas|cupti|nvtx", "CUDA", r"runtime/comm/nccl/|runtime/cuda/|.*\.cuh?$|"
     r"runtime/witness/|tests/standins/"),
]

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
TYPE = re.compile(r"^(?:struct|class|enum class|union) (\w+)(?: final)?\s*[:{]", re.M)
SOURCES = {".h", ".cc", ".cu", ".cuh"}


def read_includes(root):
    """file -> list of (line number, quoted?, path); paths relative to the root."""
    found = {}
    for top in ("analyzer", "runtime", "tests"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in SOURCES:
                continue
            text = path.read_text(encoding="utf-8")
            found[path.relative_to(root).as_posix()] = [
                (text.count("\n", 0, m.start(2)) + 1, m[1] == '"', m[2])
                for m in INCLUDE.finditer(text)]
    return found


def home(file):
    """The folder whose row of the table holds for a file; None if no row does."""
    rows = [row for row in MAY_INCLUDE if file.startswith(row + "/")]
    best = max(rows, key=len, default=None)
    is_nested = best == "analyzer" and "/" in file[len("analyzer/"):]
    return None if is_nested else best


def allowed(row):
    names = MAY_INCLUDE[row].split()
    return {row} | {name if name == "runtime" else "analyzer/" + name for name in names}


def direct(includes):
    for file, lines in includes.items():
        row = home(file)
        if row is None:
            yield f"{file}:1: no row for this folder in tests/arch/includes.py"
            continue
        for line, quoted, path in lines:
            if quoted and path not in includes:
                yield f'{file}:{line}: "{path}" is not a path from the repository root'
            if path in includes and MAY_INCLUDE[row] != "*" and home(path) not in allowed(row):
                yield f"{file}:{line}: {row} may not include {path}"


def indirect(includes):
    for start in includes:
        came_from = {start: None}
        queue = [start]
        for file in queue:
            for _, _, path in includes[file]:
                if path in includes and path not in came_from:
                    came_from[path] = file
                    queue.append(path)
        for left, right in NEVER_REACHES:
            if not start.startswith(left + "/"):
                continue
            for path in came_from:
                if path.startswith(right + "/"):
                    chain = [path]
                    while came_from[chain[0]]:
                        chain.insert(0, came_from[chain[0]])
                    yield f"{start}:1: {left} reaches {right}: " + " -> ".join(chain)


def third_party(includes):
    for file, lines in includes.items():
        if file.startswith("tests/") and not file.startswith("tests/standins/"):
            continue
        for line, quoted, path in lines:
            for pattern, name, where in CONFINED:
                if not quoted and re.search(pattern, path) and not re.match(where, file):
                    yield f"{file}:{line}: {name} header <{path}> outside its place"


def declared_twice(root, headers):
    where = {}
    for file in headers:
        text = (root / file).read_text(encoding="utf-8")
        for m in TYPE.finditer(text):
            where.setdefault(m[1], []).append((file, text.count("\n", 0, m.start()) + 1))
    for name, places in where.items():
        for file, line in places[1:]:
            if file != places[0][0]:
                yield f"{file}:{line}: {name} is a type of {places[0][0]} already"


def violations(root):
    root = Path(root)
    includes = read_includes(root)
    headers = [file for file in includes
               if file.endswith(".h") and not file.startswith(("tests/", "runtime/witness/"))]
    return sorted({*direct(includes), *indirect(includes), *third_party(includes),
                   *declared_twice(root, headers)})


if __name__ == "__main__":
    bad = violations(sys.argv[1])
    for line in bad:
        print(line)
    print(f"{len(bad)} violations")
    sys.exit(1 if bad else 0)

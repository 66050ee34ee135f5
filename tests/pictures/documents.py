"""Draws the pictures of the documentation again and compares them byte by byte.

docs/pictures/commands.txt has a line per picture: file name, colon, command line without
"shape2trace". Usage: documents.py SHAPE2TRACE ROOT [--update].
"""

import re
import subprocess
import sys
from pathlib import Path


def main(binary, root, *flags):
    folder, bad, drawn = Path(root) / "docs" / "pictures", 0, set()
    for line in (folder / "commands.txt").read_text(encoding="utf-8").splitlines():
        name, command = line.split(": ", 1)
        result = subprocess.run([binary, *command.split()], cwd=root, capture_output=True,
                                timeout=60)
        file = folder / name
        drawn.add(name)
        if "--update" in flags:
            file.write_bytes(result.stdout)
        if result.returncode or not file.exists() or file.read_bytes() != result.stdout:
            print(f"{name} is not what `shape2trace {command}` draws now")
            bad += 1
    for file in sorted(folder.glob("*.svg")):
        if file.name not in drawn:
            print(f"{file.name}: no command draws it")
            bad += 1
    for document in [Path(root) / "README.md", *sorted((Path(root) / "docs").glob("*.md"))]:
        for target in re.findall(r"pictures/([\w.-]+\.svg)", document.read_text(encoding="utf-8")):
            if target not in drawn:
                print(f"{document.name} shows pictures/{target}, which nothing draws")
                bad += 1
    print(f"{len(drawn)} pictures, {bad} problems")
    return 1 if bad or not drawn else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

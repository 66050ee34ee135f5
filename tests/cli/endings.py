#!/usr/bin/env python3
"""`render` through an outside program that hangs, writes nothing, or writes something else.

    endings.py SHAPE2TRACE MODEL

A limit on the size of files is an error. A signal ends the program by that signal; neither the
unfinished file nor the outside program stays.
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM, MODEL = sys.argv[1:3]


def within(seconds, holds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.02)
    return holds()


def runs(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rsplit(")", 1)[1].split()[0] != "Z"


class Endings(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        root = pathlib.Path(self.folder.name)
        self.bin, self.out = root / "bin", root / "out"
        self.bin.mkdir()
        self.out.mkdir()

    def start(self, dot, suffix):
        """`render` with this as its `dot`, a shell script."""
        (self.bin / "dot").write_text("#!/bin/sh\n" + dot + "\n")
        (self.bin / "dot").chmod(0o755)
        words = [PROGRAM, "render", MODEL, "--format", suffix, "-o", str(self.out / f"p.{suffix}")]
        return subprocess.Popen(words, env={**os.environ, "PATH": f"{self.bin}:/usr/bin:/bin"},
                                stderr=subprocess.PIPE, text=True)

    def test_a_signal_leaves_no_file_and_no_child(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                note = self.bin / f"pid{int(number)}"
                child = self.start(f"echo $$ > {note}.new; mv {note}.new {note}; exec sleep 60", "png")
                self.assertTrue(within(15, note.exists))
                self.assertEqual([p.name for p in self.out.iterdir()], [f"p.png.part{child.pid}"])
                child.send_signal(number)
                _, said = child.communicate(timeout=15)
                self.assertEqual((child.returncode, said), (-number, ""))
                self.assertEqual(list(self.out.iterdir()), [])
                pid = int(note.read_text())
                self.assertTrue(within(5, lambda: not runs(pid)))

    def test_what_is_no_picture_is_no_success(self):
        for suffix in ("svg", "png"):
            for dot in ("cat > /dev/null", "cat > /dev/null; echo hello"):
                with self.subTest(f"{suffix} {dot}"):
                    child = self.start(dot, suffix)
                    _, said = child.communicate(timeout=15)
                    self.assertEqual(child.returncode, 3, said)
                    self.assertRegex(said, rf"dot -T{suffix}\S* failed on what we gave it")
                    self.assertEqual(list(self.out.iterdir()), [])

    def test_what_begins_like_a_picture_is_one(self):
        child = self.start("cat > /dev/null; echo '<svg/>'", "svg")
        _, said = child.communicate(timeout=15)
        self.assertEqual((child.returncode, said), (0, ""))
        self.assertEqual((self.out / "p.svg").read_text(), "<svg/>\n")

    def test_a_limit_on_the_size_of_files_is_an_error_that_leaves_nothing(self):
        limited = f'ulimit -f 1; exec "{PROGRAM}" predict "{MODEL}" --format json -o "{self.out}/big"'
        run = subprocess.run(["bash", "-c", limited], capture_output=True, text=True, timeout=15)
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertIn("[unwritable]", run.stderr)
        self.assertEqual(list(self.out.iterdir()), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

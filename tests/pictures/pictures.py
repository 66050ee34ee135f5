"""Draws every model in every format and judges what comes out.

Usage: pictures.py SHAPE2TRACE ROOT. Formats that need Graphviz or rsvg-convert must exit 77 with
one line where that is absent; the summary says so.
"""

import html.parser
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import grammar
import samples
import svg
import trace_events

NEEDS = {("groups", "png"): "rsvg-convert", ("render", "svg"): "dot", ("render", "png"): "dot"}
LIMIT = 60.0  # seconds: a guard against what never ends, not a measurement


def run(binary, *words, env=None):
    return subprocess.run([binary, *map(str, words)], capture_output=True, timeout=120, env=env)


def formats(binary, *commands):
    """(command, format) of each format that the program says these commands have."""
    rows = json.loads(run(binary, "list", "formats", "--format", "json").stdout)["rows"]
    return [(row["command"], form) for row in rows if row["command"] in commands
            for form in row["formats"].split()]


class Page(html.parser.HTMLParser):
    """Ids, outward links and the data of an HTML report; complains about unclosed elements."""
    VOID = {"meta", "link", "input", "br", "img", "hr"}

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.outward, self.script, self.bad = [], [], [], "", []

    def handle_starttag(self, tag, attributes):
        if tag not in self.VOID:
            self.open.append(tag)
        for key, value in attributes:
            if key == "id":
                self.ids.append(value)
            if key in ("src", "href") and not (value or "").startswith(("#", "data:")):
                self.outward.append(value)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.bad.append(f"</{tag}> closes nothing")

    def handle_data(self, data):
        if self.open and self.open[-1] == "script" and not self.script:
            self.script = data


def judge_html(text):
    page = Page()
    page.feed(text)
    bad = page.bad + [f"unclosed {t}" for t in page.open] + [f"leads outside: {o}" for o in
                                                             page.outward]
    for name in ("summary", "groups", "communication", "events", "pruned", "one-rank", "timeline"):
        bad += [] if name in page.ids else [f"no section {name}"]
    if not json.loads(page.script)["columns"]:
        bad.append("no columns")
    if re.search(r"@import|url\(\s*['\"]?http|fetch\(|XMLHttpRequest", text):
        bad.append("reaches for the network")
    return bad


def judge_dot(text):
    """Graphviz is the judge of its own language."""
    if not shutil.which("dot"):
        return [] if text.startswith("digraph") else ["no digraph"]
    result = subprocess.run(["dot", "-Tcanon"], input=text.encode(), capture_output=True)
    return [result.stderr.decode()] if result.returncode or result.stderr else []


def judge_png(data):
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        return ["no PNG"]
    width, height = struct.unpack(">II", data[16:24])
    return [] if width > 50 and height > 30 else [f"only {width} x {height}"]


def judge(command, form, data):
    if form == "png":
        return judge_png(data)
    text = data.decode("utf-8")
    if form == "svg":
        return svg.drawn_by_dot(text) if command == "render" else \
            svg.drawn_by_us(text, ("F", "B", "F odd", "B odd") if command == "schedule" else
                            ("cell", "fold", "here", "peer"))
    return {"mermaid": grammar.problems, "dot": judge_dot, "html": judge_html,
            "chrome": trace_events.problems, "json": lambda t: [] if json.loads(t) else ["empty"],
            "text": lambda t: [] if t.strip() else ["empty"]}[form](text)


def draw(binary, model, command, form, limit=None, twice=False):
    begin = time.perf_counter()
    result = run(binary, command, model, "--format", form)
    took = time.perf_counter() - begin
    tool = NEEDS.get((command, form))
    if tool and not shutil.which(tool):
        lines = result.stderr.decode().splitlines()
        return [] if result.returncode == 77 and len(lines) == 1 and tool in lines[0] else \
            [f"{tool} is absent: exit {result.returncode}, {lines}"]
    if result.returncode:
        return [f"exit {result.returncode}: {result.stderr.decode()[:500]}"]
    bad = judge(command, form, result.stdout)
    if limit and took > limit:
        bad.append(f"took {took:.1f} s, more than {limit} s")
    if twice and run(binary, command, model, "--format", form).stdout != result.stdout:
        bad.append("other bytes the second time")
    return bad


def expected_labels(binary, root):
    """What a reader looks for is there, in groups and graph."""
    bad = []
    model = root / "models" / "tp_ar_b128.json"
    wanted = [("groups", "svg", ["rank 0", "rank 3", "dp 1 tp 1", "2 groups of 2"]),
              ("render", "dot", ["forward all_reduce", "backward all_reduce",
                                 "grad_sync all_reduce", "over tp", "tp:P", "256 x 512"]),
              ("render", "mermaid", ["forward all_reduce", "grad_sync all_reduce"])]
    for command, form, words in wanted:
        text = run(binary, command, model, "--format", form).stdout.decode()
        bad += [f"{command} {form}: no {w!r}" for w in words if w not in text]
    pruned = run(binary, "render", root / "models" / "ep_no_input_grad.json", "--format", "dot")
    if not re.search(r"pruned: .*style=\"[a-z,]*dashed", pruned.stdout.decode()):
        bad.append("a pruned collective is not dashed")
    return bad


def filters(binary, root):
    model, bad = root / "models" / "tp_ar_b128.json", []

    def boxes(*words):
        text = run(binary, "render", model, *words).stdout.decode()
        return {p: len(re.findall(rf'class="{p}"', text))
                for p in ("forward", "backward", "grad_sync")}

    every = boxes()
    bad += [] if all(every.values()) else [f"without filters some phase is missing: {every}"]
    only = boxes("--phase", "forward")
    if only != {"forward": every["forward"], "backward": 0, "grad_sync": 0}:
        bad.append(f"--phase forward shows {only}")
    if boxes("--axis", "dp")["forward"] or not boxes("--axis", "dp")["grad_sync"]:
        bad.append("--axis dp")
    piped = root / "models" / "pp_4layers.json"
    everything = run(binary, "render", piped).stdout.decode()
    one = run(binary, "render", piped, "--rank", "0").stdout.decode()
    if not 0 < one.count("class=") < everything.count("class="):
        bad.append("--rank 0 shows all stages")
    title = run(binary, "render", model, "--phase", "forward", "--axis", "tp", "--rank", "1",
                "--layers", "1").stdout.decode()
    if "only forward collectives over tp, layer 1, rank 1" not in title:
        bad.append("the heading does not name the filters")
    for words in (["--phase", "x"], ["--axis", "x"], ["--layers", "x"], ["--rank", "99"]):
        result = run(binary, "render", model, *words)
        if result.returncode != 2 or result.stdout:
            bad.append(f"{words} is accepted")
    return bad


def outputs(binary, root, folder):
    """-o is all or nothing."""
    model, bad = root / "models" / "tp_ar_b128.json", []
    nowhere = folder / "no" / "such" / "file.svg"
    if run(binary, "groups", model, "--format", "svg", "-o", nowhere).returncode != 2:
        bad.append("an unwritable path is no error")
    file = folder / "kept.svg"
    file.write_text("before")
    missing = run(binary, "groups", folder / "absent.json", "--format", "svg", "-o", file)
    if missing.returncode != 2 or file.read_text() != "before":
        bad.append("a failed command touched the file")
    env = dict(os.environ, PATH="/nonexistent")
    for command in ("groups", "render"):
        result = run(binary, command, model, "--format", "png", "-o", file, env=env)
        if result.returncode != 77 or len(result.stderr.splitlines()) != 1 or \
                file.read_text() != "before":
            bad.append(f"{command} png without its tool: exit {result.returncode}")
    without = run(binary, "render", model, "--format", "html", env=env)
    if without.returncode or judge_html(without.stdout.decode()):
        bad.append("no page without Graphviz")
    if sorted(p.name for p in folder.iterdir() if ".part" in p.name):
        bad.append("a part file is left behind")
    return bad


def framework(binary, root):
    """What belongs to no op is drawn, and nothing is told on the side."""
    words = [root / "models" / "configs" / "llama-3.1-8b.json", "--profile", "megatron", "--tp", "2",
             "--pp", "2", "--dp", "2", "--seq", "64"]
    result, bad = run(binary, "render", *words), []
    text = result.stdout.decode()
    for name in ("batch.tokens, batch.position_ids", "2 calls", "batch.labels", "grad_norm",
                 "step_succeeded", "loss.logged", "after the last backward"):
        bad += [] if name in text else [f"no {name}"]
    bad += [result.stderr.decode()] if result.stderr else []
    step = run(binary, "render", *words, "--phase", "step").stdout.decode()
    if step.count('class="step"') != 4:
        bad.append(f"--phase step draws {step.count(chr(34) + 'step' + chr(34))} collectives")
    return bad


def too_much(binary, model):
    """What is too big for a program that draws it is told, with what to do."""
    bad = []
    mermaid = run(binary, "render", model, "--format", "mermaid")
    told = mermaid.stderr.decode()
    if mermaid.returncode or "maxTextSize" not in told or "maxEdges" not in told:
        bad.append(f"mermaid: {told}")
    if shutil.which("dot"):
        svg_result = run(binary, "render", model, "--format", "svg")
        if svg_result.returncode != 2 or b"--layers" not in svg_result.stderr:
            bad.append(f"svg: exit {svg_result.returncode}, {svg_result.stderr.decode()}")
    page = run(binary, "render", model, "--format", "html")
    if page.returncode or judge_html(page.stdout.decode()):
        bad.append("no page")
    return bad


def names_survive(binary, model):
    """Names come out escaped, and short ones intact."""
    bad = []
    text = run(binary, "render", model, "--format", "html").stdout.decode()
    page = Page()
    page.feed(text)
    if "</script><b>" in text.split("<body>")[1].replace("</script>\n<script>", ""):
        bad.append("html: a name ends the script")
    dot = run(binary, "render", model, "--format", "dot").stdout.decode()
    for name in samples.HOSTILE[:2] + samples.HOSTILE[3:4]:
        escaped = name.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
        if escaped not in dot:
            bad.append(f"dot: {name!r} is not there")
    told = json.loads(run(binary, "predict", model, "--format", "json").stdout)
    if told["model"] != samples.HOSTILE[-1]:
        bad.append(f"json: the model is called {told['model']!r}")
    return bad if json.loads(page.script)["events"] else bad + ["no data"]


def nothing_unseen(binary, model):
    """No name turns what stands around it, wherever the name stands."""
    bad = []
    texts = [f for f in formats(binary, "predict", "groups", "explain", "render", "schedule")
             if f[1] not in ("png", "csv", "chakra", "aicb")] + [("verify", "text")]
    for turn in range(len(samples.HOSTILE)):
        told = samples.hostile(turn)
        model.write_text(json.dumps(told))
        for command, form in texts:
            if NEEDS.get((command, form)) and not shutil.which(NEEDS[command, form]):
                continue
            words = ["0"] if command == "explain" else []
            result = run(binary, command, model, *words, "--format", form)
            text = result.stdout.decode() + result.stderr.decode()
            raw = samples.unseen(text) + ["a line break"] * ("line\nbreak" in text)
            bad += [f"{command} {form} lets {raw} through"] if raw else []
            bad += [f"{command} {form}: exit {result.returncode}"] if result.returncode else []
        told["ops"][0]["inputs"][1] += samples.UNSEEN
        for tensor in told["tensors"].values():
            tensor["layout"] = {"tp": samples.UNSEEN}
        model.write_text(json.dumps(told))
        result = run(binary, "predict", model)
        raw = samples.unseen(result.stderr.decode())
        if result.returncode != 2 or raw:
            bad.append(f"errors: exit {result.returncode}, {raw}")
    return bad


def main(binary, root):
    root, bad, count = Path(root), 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def report(label, problems):
            nonlocal bad, count
            count += 1
            for p in problems[:5]:
                print(f"{label}: {p}")
            bad += bool(problems)

        stack, odd, long = (folder / f"{n}.json" for n in ("stack", "odd", "long_axes"))
        wide = folder / "wide.json"
        stack.write_text(json.dumps(samples.stack()))
        odd.write_text(json.dumps(samples.hostile()))
        long.write_text(json.dumps(samples.long_axes(root)))
        wide.write_text(json.dumps(samples.wide()))
        pictures = formats(binary, "groups", "render", "schedule")
        for model in [*sorted((root / "models").glob("*.json")), odd, long]:
            for command, form in pictures:
                report(f"{model.name} {command} {form}",
                       draw(binary, model, command, form, twice=model == odd))
        for command, form in pictures:
            report(f"stack {command} {form}", draw(binary, stack, command, form, LIMIT))
        report("labels", expected_labels(binary, root))
        report("filters", filters(binary, root))
        report("outputs", outputs(binary, root, folder))
        report("names", names_survive(binary, odd))
        report("nothing unseen", nothing_unseen(binary, folder / "turned.json"))
        report("framework", framework(binary, root))
        report("too much", too_much(binary, wide))
    absent = sorted({t for t in NEEDS.values() if not shutil.which(t)})
    print(f"{count} checks, {bad} failed" + (f"; absent: {', '.join(absent)}" if absent else ""))
    return 1 if bad or not count else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

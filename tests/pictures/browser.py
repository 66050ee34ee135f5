"""Opens HTML reports in a headless Chromium and uses them as a reader would.

Usage: browser.py SHAPE2TRACE ROOT [FOLDER for screenshots]. Speaks the DevTools protocol over the
browser's pipe, so it needs nothing but Chromium; without it the test says so and exits 77.
"""

import base64
import json
import os
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

import samples

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 90  # seconds for one answer: a loaded machine starts a browser slowly


class Browser:
    def __init__(self, program, profile):
        to_browser, self.output = os.pipe()
        self.input, from_browser = os.pipe()
        words = [program, "--headless=new", "--no-sandbox", "--window-size=1280,900", "--disable-gpu", "--hide-scrollbars",
                 "--disable-dev-shm-usage", "--no-first-run", f"--user-data-dir={profile}",
                 "--remote-debugging-pipe", "about:blank"]
        redirect = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser} 2>/dev/null'
        self.process = subprocess.Popen(["bash", "-c", redirect, *words],
                                        pass_fds=(to_browser, from_browser),
                                        stdout=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.number, self.session, self.events = b"", 0, None, []

    def message(self):
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.input], [], [], max(0, deadline - time.monotonic()))
            part = os.read(self.input, 1 << 20) if ready else b""
            if not part:
                raise TimeoutError("the browser does not answer")
            self.buffer += part
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.output, json.dumps(request).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, url):
        self.session, self.events = None, []
        target = self.call("Target.createTarget", url="about:blank")
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Runtime", "Log", "Page", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.navigate", url=url)
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self.message())

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def key(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key,
                      **({"text": key} if len(key) == 1 and kind == "keyDown" else {}))

    def screenshot(self):
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def close(self):
        self.session = None
        try:
            self.call("Browser.close")
            self.process.wait(20)
        except (OSError, TimeoutError, RuntimeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()


def pixels(png):
    """Rows of (r, g, b) of an 8-bit RGB or RGBA PNG."""
    at, data, header = 8, b"", None
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        body = png[at + 8:at + 8 + size]
        header = struct.unpack(">IIBBBBB", body) if kind == b"IHDR" else header
        data += body if kind == b"IDAT" else b""
        at += size + 12
    width, height, bits, colour = header[:4]
    assert bits == 8 and colour in (2, 6), header
    step = 3 if colour == 2 else 4
    raw, stride, before, rows = zlib.decompress(data), width * step, bytes(width * step), []
    for y in range(height):
        kind, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride):
            a = line[i - step] if i >= step else 0
            b, c = before[i], before[i - step] if i >= step else 0
            if kind == 4:
                p = a + b - c
                line[i] = line[i] + min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2] & 255
            else:
                line[i] = line[i] + (0, a, b, (a + b) // 2)[kind] & 255
        before = bytes(line)
        rows.append([before[i:i + 3] for i in range(0, stride, step)])
    return rows


def lightness(rows):
    return sum(sum(p) for row in rows[::8] for p in row[::8]) / (
        765 * sum(len(row[::8]) for row in rows[::8]))


def complaints(browser):
    """Errors on the console, exceptions, and whatever went to a network."""
    bad = []
    for e in browser.events:
        method, p = e.get("method"), e.get("params", {})
        if method == "Runtime.exceptionThrown":
            bad.append(p["exceptionDetails"].get("exception", {}).get("description", "exception"))
        if method == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning", "assert"):
            bad.append(f"console: {p['args']}")
        if method == "Log.entryAdded" and p["entry"]["level"] == "error":
            bad.append(f"log: {p['entry']['text']}")
        if method == "Network.requestWillBeSent" and \
                not p["request"]["url"].startswith(("file:", "data:")):
            bad.append(f"network: {p['request']['url']}")
    return bad


ROWS = "document.querySelectorAll('#events-body tr').length"


def choose(browser, field, value):
    browser.value(f"(() => {{ const f = document.getElementById({json.dumps(field)}); "
                  f"f.value = {json.dumps(value)}; f.dispatchEvent(new Event('input')); }})()")


def column(browser, index):
    return browser.value(f"[...document.querySelectorAll('#events-body tr')]"
                         f".map(r => r.children[{index}].textContent)")


def use_table(browser):
    bad, every = [], browser.value(ROWS)
    if not every:
        return ["no events are listed"]
    choose(browser, "of-phase", "forward")
    phases = set(column(browser, 1))
    wanted = browser.value("data.events.filter(e => e.phase === 'forward').length")
    status = browser.value("document.getElementById('events-count').textContent")
    if phases != {"forward"} or f" of {wanted:,} shown" not in status:
        bad.append(f"the filter by phase shows {phases}, {status}; wanted {wanted}")
    choose(browser, "of-phase", "")
    choose(browser, "find", "no event says this")
    if browser.value(ROWS):
        bad.append("the search finds what is not there")
    choose(browser, "find", "")
    if browser.value(ROWS) != every:
        bad.append("rows do not come back")
    head = "document.querySelectorAll('#events-head button')[10]"
    for wanted in (False, True):
        browser.value(head + ".click()")
        numbers = [int(t.replace(",", "")) for t in column(browser, 10)]
        if numbers != sorted(numbers, reverse=wanted):
            bad.append("sorting by bytes does not sort")
    return bad


def use_rank(browser, world):
    choose(browser, "rank", str(world - 1))
    place = browser.value("document.getElementById('rank-place').textContent")
    calls = browser.value("document.querySelectorAll('#rank-calls tr').length")
    groups = browser.value("document.querySelectorAll('#rank-groups tr').length")
    bad = [] if place.startswith(f"Rank {world - 1}:") and calls and groups else \
        [f"one rank: {place!r}, {calls} calls, {groups} groups"]
    for field, told in [("rank", "rank-place"), ("of-rank", "events-count")]:
        for number, wanted in [(world, True), (world - 1, False)]:
            choose(browser, field, str(number))
            text = browser.value(f"document.getElementById('{told}').textContent")
            if ("no such rank: there are 0 to" in text) != wanted:
                bad.append(f"{field} {number} of {world}: {text!r}")
    choose(browser, "of-rank", "")
    return bad


# Texts of pictures as this browser sets them: each inside its box, all inside their picture.
CUT = """(() => {
  const bad = [], inside = (t, b) => t.x >= b.x - 1 && t.x + t.width <= b.x + b.width + 1 &&
                                     t.y >= b.y - 2 && t.y + t.height <= b.y + b.height + 2;
  for (const node of document.querySelectorAll("#graph .node")) {
    const shape = node.querySelector("polygon, path");
    for (const text of shape ? node.querySelectorAll("text") : [])
      if (!inside(text.getBBox(), shape.getBBox())) bad.push(text.textContent);
  }
  for (const svg of document.querySelectorAll("svg.s2t-groups, svg.s2t-timeline"))
    for (const text of svg.querySelectorAll("text"))
      if (!inside(text.getBBox(), svg.viewBox.baseVal)) bad.push(text.textContent);
  for (const cell of document.querySelectorAll("svg.s2t-timeline g")) {
    const text = cell.querySelector("text");
    if (text && !inside(text.getBBox(), cell.querySelector("rect").getBBox()))
      bad.push(text.textContent);
  }
  return bad;
})()"""


def names(browser):
    """What the reader of the odd model sees: names whole, set apart, and none that turns text."""
    seen = browser.value("document.documentElement.textContent + document.title + "
                         "[...document.querySelectorAll('[title]')].map(n => n.title).join()")
    apart = browser.value("[...document.querySelectorAll('bdi')].map(n => n.textContent)")
    raw = samples.unseen(browser.value("document.body.innerText")) + samples.unseen(
        browser.value("[...document.querySelectorAll('[title]')].map(n => n.title).join()"))
    bad = [f"raw on the page: {raw}"] if raw else []
    if samples.HOSTILE[3] not in apart:
        bad.append(f"letters from right to left are not set apart: {apart}")
    for name in samples.HOSTILE[:2] + ["line\\nbreak\\ttab", "\\u202e", "long " * 119]:
        bad += [] if name in seen else [f"{name!r} is not on the page"]
    return bad


def cut_off(browser):
    return [f"a text leaves its box: {text!r}" for text in browser.value(CUT)]


def use_filters(browser, binary, folder, root):
    """A page of one phase, axis, rank and layer says so and holds nothing else."""
    page = Path(folder) / "filtered.html"
    subprocess.run([binary, "render", root / "models" / "tp_pp_dp_8ranks.json", "--format", "html",
                    "--phase", "backward", "--axis", "tp", "--rank", "6", "--layers", "2-3", "-o",
                    page], check=True)
    browser.open(page.as_uri())
    shown = browser.value("document.getElementById('shown').textContent")
    phases, groups = set(column(browser, 1)), set(column(browser, 3))
    summary = browser.value("[...document.querySelectorAll('#summary tbody tr')]"
                            ".map(r => r.children[0].textContent + r.children[2].textContent)")
    choose(browser, "rank", "0")
    place = browser.value("document.getElementById('rank-place').textContent")
    heads = browser.value("[...document.querySelectorAll('#one-rank th')].map(h => h.textContent)")
    bad = [] if shown.startswith("only backward collectives over tp, layers 2 to 3, rank 6") else \
        [f"the page does not name its filters: {shown}"]
    if phases != {"backward"} or groups != {"tp"} or set(summary) != {"backwardtp"}:
        bad.append(f"the tables are not filtered: {phases} {groups} {summary}")
    if not place.startswith("Rank 6:") or not place.endswith("this page is of rank 6 alone") or \
            "output B" not in heads:
        bad.append(f"one rank: {place} {heads}")
    if browser.value("const t = document.querySelector('#graph .op text');"
                     "if (t) t.textContent = 'w'.repeat(300); !!t") and not cut_off(browser):
        bad.append("a text that is too long for its box goes unnoticed")
    return bad + complaints(browser)


OVERLAP = """(() => {
  const frame = document.getElementById("graph").getBoundingClientRect();
  const svg = document.querySelector("#graph svg").getBoundingClientRect();
  return svg.left < frame.right - 9 && frame.left + 9 < svg.right &&
         svg.top < frame.bottom - 9 && frame.top + 9 < svg.bottom;
})()"""


def use_keyboard(browser):
    if not browser.value("!!document.querySelector('#graph svg')"):
        return [] if not shutil.which("dot") else ["no picture of the graph"]
    look = "document.querySelector('#graph svg').style.transform"
    browser.value("document.getElementById('graph').focus()")
    seen = [browser.value(look)]
    for key in ("+", "ArrowLeft", "-"):
        browser.key(key)
        seen.append(browser.value(look))
    bad = [] if len(set(seen)) == len(seen) else [f"keys do not move the picture: {seen}"]
    for key in ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"):
        browser.value("for (let i = 0; i < 200; ++i) document.getElementById('graph').dispatchEvent("
                      f"new KeyboardEvent('keydown', {{key: '{key}'}}))")
        if not browser.value(OVERLAP):
            bad.append(f"{key} loses the picture")
    browser.key("0")
    ring = browser.value("const s = getComputedStyle(document.getElementById('graph'));"
                         "parseFloat(s.outlineOffset) + parseFloat(s.outlineWidth)")
    if ring > 0:
        bad.append(f"{ring} px of the ring around the focused picture are cut off")
    browser.key("Tab")
    if browser.value("document.activeElement.id") == "graph":
        bad.append("Tab does not leave the picture")
    return bad


def look(browser, label, folder):
    bad, light = [], {}
    for scheme in ("light", "dark"):
        browser.call("Emulation.setEmulatedMedia",
                     features=[{"name": "prefers-color-scheme", "value": scheme}])
        browser.value("window.scrollTo(0, 0)")
        png = browser.screenshot()
        if folder:
            Path(folder, f"{label}-{scheme}.png").write_bytes(png)
        rows = pixels(png)
        if len({p for row in rows[::2] for p in row[::2]}) < 16:
            bad.append(f"the {scheme} page is blank")
        light[scheme] = lightness(rows)
    if not light["dark"] < 0.35 < 0.65 < light["light"]:
        bad.append(f"light and dark look alike: {light}")
    wide = browser.value("document.documentElement.scrollWidth > window.innerWidth")
    return bad + (["the page scrolls sideways"] if wide else [])


def judge(browser, binary, model, world, folder, screenshots):
    page = Path(folder) / "page.html"
    subprocess.run([binary, "render", model, "--format", "html", "-o", page], check=True,
                   stderr=subprocess.DEVNULL)
    browser.open(page.as_uri())
    bad = use_table(browser) + use_rank(browser, world) + cut_off(browser) + use_keyboard(browser)
    bad += names(browser) if model.name == "odd.json" else []
    bad += look(browser, Path(model).stem, screenshots)
    return bad + complaints(browser)


def main(binary, root, screenshots=None):
    program = next((p for p in map(shutil.which, BROWSERS) if p), None)
    if not program:
        print("skipped: no Chromium here (Debian: apt-get install chromium)")
        return 77
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        stack, odd = Path(folder, "stack.json"), Path(folder, "odd.json")
        stack.write_text(json.dumps(samples.stack()))
        odd.write_text(json.dumps(samples.hostile()))
        models = Path(root) / "models"
        cases = [(models / "tp_ar_b128.json", 4), (models / "tp_pp_dp_8ranks.json", 8),
                 (stack, 16384), (odd, 2)]
        browser = Browser(program, str(Path(folder) / "profile"))
        try:
            for model, world in cases:
                found = judge(browser, binary, model, world, folder, screenshots)
                for p in found:
                    print(f"{model.name}: {p}")
                bad += bool(found)
            found = use_filters(browser, binary, folder, Path(root))
            print("".join(f"filters: {p}\n" for p in found), end="")
            bad += bool(found)
        finally:
            browser.close()
    print(f"{len(cases) + 1} pages, {bad} with problems")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""Judges an SVG: well-formed, boxes apart, text inside the picture and inside its box."""

import re
import unicodedata
import xml.etree.ElementTree as ET

NS = "{http://www.w3.org/2000/svg}"
ADVANCE = 0.602  # of a glyph of DejaVu Sans Mono, the widest of the fonts, per px of font size


def columns(text):
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else
               0 if unicodedata.combining(c) else 1 for c in text)


def labels(root):
    return ["".join(t.itertext()) for t in root.iter(NS + "text")]


def rectangles(root, names):
    found = []
    for r in root.iter(NS + "rect"):
        if r.get("class", "") in names:
            x, y, w, h = (float(r.get(k)) for k in ("x", "y", "width", "height"))
            found.append((x, y, x + w, y + h))
    return found


def overlap(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def drawn_by_us(text, boxes=("cell", "fold", "here", "peer")):
    """Problems of a picture that the product draws itself."""
    root = ET.fromstring(text)
    width = float(root.get("width"))
    size = re.search(r"font:(\d+)px", text)
    glyph = ADVANCE * float(size[1] if size else 12)
    rects = rectangles(root, boxes)
    bad = [f"boxes overlap: {a} {b}" for i, a in enumerate(rects) for b in rects[i + 1:]
           if overlap(a, b)]
    for t in root.iter(NS + "text"):
        x, y, text = float(t.get("x")), float(t.get("y")), "".join(t.itertext())
        half = columns(text) * glyph / 2
        middle = "m" in t.get("class", "").split()
        begin, end = (x - half, x + half) if middle else (x, x + 2 * half)
        if begin < 0 or end > width:
            bad.append(f"text leaves the picture: {text!r}")
        for r in rects:
            inside = r[0] <= x <= r[2] and r[1] <= y <= r[3]
            if inside and middle and (begin < r[0] or end > r[2]):
                bad.append(f"text leaves its box: {text!r}")
    return bad


def polygon_box(node):
    """Bounding box of a node that Graphviz drew."""
    numbers = []
    for p in node.iter():
        if p.tag in (NS + "polygon", NS + "path"):
            points = re.findall(r"-?[\d.]+,-?[\d.]+", p.get("points") or p.get("d") or "")
            numbers += [tuple(map(float, q.split(","))) for q in points]
    if not numbers:
        return None
    xs, ys = zip(*numbers)
    return min(xs), min(ys), max(xs), max(ys)


def drawn_by_dot(text):
    """Problems of a picture that Graphviz laid out."""
    root = ET.fromstring(text)
    boxes = [b for g in root.iter(NS + "g") if "node" in g.get("class", "").split()
             for b in [polygon_box(g)] if b]
    return [f"boxes overlap: {a} {b}" for i, a in enumerate(boxes) for b in boxes[i + 1:]
            if overlap(a, b)] + ([] if labels(root) else ["no text"])

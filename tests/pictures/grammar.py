"""A strict reader of the part of Mermaid's flowchart language that the product writes.

Follows the grammar of Mermaid 10 (flow.jison): a quoted string holds no quote; in it an entity is
"#name;" or "#number;"; a line break is <br/>. Everything not listed here is an error.
"""

import re

STRING = r'"(?:[^"<>\n#;]|#\d+;|#\w+;|<br/>|(?<!#);)*"'
SHAPES = [(r"\[", r"\]"), (r"\(\[", r"\]\)"), (r"\{\{", r"\}\}"), (r"\[\[", r"\]\]"),
          (r"\[/", r"/\]"), (r"\[/", r"\\\]"), (r">", r"\]")]
NODE = re.compile(rf"(\w+)(?:{'|'.join(o + STRING + c for o, c in SHAPES)})")
LINK = re.compile(rf"(\w+) (?:-->|-\.->|---|-\.-)(?:\|{STRING}\|)? (\w+)")
OPEN = re.compile(rf"subgraph (\w+)\[{STRING}\]")
STYLE = re.compile(r"style (\w+) [a-z-]+:[#\w ]+(?:,[a-z-]+:[#\w ]+)*")
LINK_STYLE = re.compile(r"linkStyle (\d+) [a-z-]+:[#\w]+(?:,[a-z-]+:[#\w]+)*")
RESERVED = {"end", "graph", "subgraph", "flowchart", "style", "class", "click", "default"}


def problems(text):
    lines = text.split("\n")
    if lines[0] != "flowchart TD" or lines[-1] != "":
        return ["does not start with flowchart TD, or the last line is cut"]
    bad, nodes, links, depth = [], set(), 0, 0
    for number, raw in enumerate(lines[1:-1], 2):
        line = raw.strip()
        if line.startswith("%%"):
            if "{" in line:
                bad.append(f"{number}: a brace in a comment starts a directive")
        elif line == "end":
            depth -= 1
        elif OPEN.fullmatch(line):
            depth += 1
        elif m := NODE.fullmatch(line):
            bad += [f"{number}: {m[1]} twice"] if m[1] in nodes else []
            bad += [f"{number}: reserved word"] if m[1] in RESERVED else []
            nodes.add(m[1])
        elif m := LINK.fullmatch(line):
            links += 1
            bad += [f"{number}: unknown node {n}" for n in (m[1], m[2]) if n not in nodes]
        elif m := STYLE.fullmatch(line):
            bad += [] if m[1] in nodes else [f"{number}: style of unknown node"]
        elif m := LINK_STYLE.fullmatch(line):
            bad += [] if int(m[1]) < links else [f"{number}: style of unknown link"]
        else:
            bad.append(f"{number}: no statement: {line[:120]}")
        if depth < 0:
            return bad + [f"{number}: end without subgraph"]
    return bad + (["subgraph without end"] if depth else [])

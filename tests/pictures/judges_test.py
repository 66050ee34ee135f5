"""The judges of pictures must find what is wrong: each case here is broken in one way."""

import json
import sys

import grammar
import svg
import trace_events

GOOD = 'flowchart TD\n  a["x"]\n  b(["y #59; z"])\n  a -->|"l<br/>m"| b\n'
BROKEN = [("a quote inside", 'flowchart TD\n  a["x " y"]\n'),
          ("a bare angle bracket", 'flowchart TD\n  a["x <b>"]\n'),
          ("a link to nobody", 'flowchart TD\n  a["x"]\n  a --> b\n'),
          ("a reserved word", 'flowchart TD\n  end["x"]\n'),
          ("a subgraph left open", 'flowchart TD\n  subgraph s["x"]\n'),
          ("an end too many", 'flowchart TD\n  end\n'),
          ("another shape", 'flowchart TD\n  a<"x">\n'),
          ("a style of nobody", 'flowchart TD\n  style a stroke:#000\n'),
          ("no header", 'a["x"]\n')]

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" width="200" height="100">'
CELL = '<rect class="cell" x="{}" y="10" width="60" height="20"/>'
TEXT = '<text class="{}" x="{}" y="20">{}</text>'
PICTURES = [("good", HEAD + CELL.format(10) + CELL.format(100) + TEXT.format("t m", 40, "rank") +
             "</svg>", True),
            ("overlap", HEAD + CELL.format(10) + CELL.format(50) + "</svg>", False),
            ("text beyond the edge", HEAD + TEXT.format("t", 150, "ten glyphs") + "</svg>", False),
            ("text wider than its box",
             HEAD + CELL.format(10) + TEXT.format("t m", 40, "twelve glyphs") + "</svg>", False)]


NAMED = [{"ph": "M", "pid": p, "tid": t, "name": n, "args": {"name": "x"}}
         for p, t in ((1, 1), (2, 2)) for n in ("process_name", "thread_name")]
SEND = {"ph": "X", "pid": 1, "tid": 1, "ts": 0, "dur": 2, "name": "a", "cat": "send_activation",
        "args": {"microbatch": 0}}
RECV = SEND | {"pid": 2, "tid": 2, "cat": "recv_activation"}
START = {"ph": "s", "pid": 1, "tid": 1, "ts": 0, "id": 7, "name": "activation", "cat": "p2p"}
END = START | {"ph": "f", "pid": 2, "tid": 2, "ts": 1, "bp": "e"}
TRACES = [("good", [SEND, START, RECV, END], True),
          ("process 0", [SEND | {"pid": 0}], False),
          ("a thread of two processes", [SEND, RECV | {"tid": 1}], False),
          ("no names", [SEND | {"pid": 3, "tid": 3}], False),
          ("overlap", [SEND, SEND | {"ts": 1}], False),
          ("order of time", [SEND | {"ts": 1}, SEND | {"ts": 0, "dur": 1}], False),
          ("one end", [SEND, START], False),
          ("binds to the next", [SEND, START, RECV, {k: END[k] for k in END if k != "bp"}], False),
          ("other names", [SEND, START, RECV, END | {"name": "gradient"}], False),
          ("before its slice", [START, SEND, RECV, END], False),
          ("another microbatch", [SEND, START, RECV | {"args": {"microbatch": 1}}, END], False)]


def main():
    bad = [f"good text refused: {p}" for p in grammar.problems(GOOD)]
    bad += [f"accepted: {name}" for name, text in BROKEN if not grammar.problems(text)]
    bad += [f"picture {name}: {svg.drawn_by_us(text)}" for name, text, good in PICTURES
            if bool(svg.drawn_by_us(text)) == good]
    bad += [f"trace {name}: {found}" for name, events, good in TRACES
            for found in [trace_events.problems(json.dumps({"traceEvents": NAMED + events}))]
            if bool(found) == good]
    print("\n".join(bad) or f"{len(BROKEN) + len(PICTURES) + len(TRACES) + 1} cases judged rightly")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

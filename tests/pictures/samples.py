"""Models that the tests of pictures need and that are too big or too odd to keep in models/."""

import json
import re


def layer(i, stage, x, tensors, ops):
    """One llama layer under sequence parallelism; returns the name of what it makes."""
    def parameter(name, shape, placement=None):
        tensors[f"l{i}_{name}"] = {"shape": shape, "parameter": True} | (
            {"layout": {"tp": placement}} if placement else {})

    def op(kind, inputs, output, **more):
        ops.append({"op": kind, "inputs": inputs, "output": f"l{i}_{output}", "stage": stage,
                    "module": f"layers.{i}"} | more)

    d, kv, h = 1024, 512, 2048
    for name, shape, placement in [("g1", [d], None), ("wq", [d, d], "S(0)"),
                                   ("wk", [kv, d], "S(0)"), ("wv", [kv, d], "S(0)"),
                                   ("wo", [d, d], "S(1)"), ("g2", [d], None),
                                   ("wg", [h, d], "S(0)"), ("wu", [h, d], "S(0)"),
                                   ("wd", [d, h], "S(1)")]:
        parameter(name, shape, placement)
    p = f"l{i}_"
    heads = {"rule": "x[b s (h d)] -> y[b h s d]"}
    op("rms_norm", [x, p + "g1"], "n1")
    for name, count in [("q", 16), ("k", 8), ("v", 8)]:
        op("linear", [p + "n1", p + "w" + name], name)
        op("reshape", [p + name], name + "h", **heads, sizes={"h": count})
    op("attention", [p + "qh", p + "kh", p + "vh"], "oh", causal=True)
    op("reshape", [p + "oh"], "o", rule="x[b h s d] -> y[b s (h d)]")
    op("linear", [p + "o", p + "wo"], "att")
    op("add", [x, p + "att"], "r")
    op("rms_norm", [p + "r", p + "g2"], "n2")
    op("linear", [p + "n2", p + "wg"], "gate")
    op("linear", [p + "n2", p + "wu"], "up")
    op("swiglu", [p + "gate", p + "up"], "act")
    op("linear", [p + "act", p + "wd"], "mlp")
    op("add", [p + "r", p + "mlp"], "y")
    return p + "y"


def stack(layers=126, dp=128, pp=16, tp=8, microbatches=32):
    """A llama stack in a pipeline, with embedding and loss at its ends."""
    tensors = {"ids": {"shape": ["batch", 512], "dtype": "i64"},
               "labels": {"shape": ["batch", 512], "dtype": "i64"},
               "table": {"shape": [32000, 1024], "parameter": True, "layout": {"tp": "S(0)"}},
               "g_last": {"shape": [1024], "parameter": True},
               "w_head": {"shape": [32000, 1024], "parameter": True, "layout": {"tp": "S(0)"}}}
    ops = [{"op": "embedding", "inputs": ["ids", "table"], "output": "e", "module": "embed"}]
    x, pins = "e", {"e": {"tp": "S(1)"}}
    for i in range(layers):
        x = layer(i, i * pp // layers, x, tensors, ops)
        pins |= {f"l{i}_att": {"tp": "S(1)"}, f"l{i}_mlp": {"tp": "S(1)"}}
    last = {"stage": pp - 1, "module": "head"}
    ops += [{"op": "rms_norm", "inputs": [x, "g_last"], "output": "n_last"} | last,
            {"op": "linear", "inputs": ["n_last", "w_head"], "output": "logits"} | last,
            {"op": "cross_entropy", "inputs": ["logits", "labels"], "output": "loss"} | last]
    return {"schema": "shape2trace.model/1", "name": f"stack_{layers}",
            "mesh": {"axes": [{"name": "dp", "size": dp, "kind": "data"},
                              {"name": "pp", "size": pp, "kind": "pipeline"},
                              {"name": "tp", "size": tp}]},
            "batch": {"local": microbatches, "axes": ["dp"]}, "microbatches": microbatches,
            "tensors": tensors, "ops": ops, "pins": pins, "loss": "loss",
            "pipeline": {"axis": "pp", "schedule": "1f1b", "p2p": "batched"},
            "gradient_sync": {"kind": "bucketed", "axes": ["dp"], "reduce": "mean"}}


# Each turns the direction of text, or ends a line, without being seen.
UNSEEN = "\x1b\x9b\u061c\u200e\u200f\u2028\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u2069"
# What languages without markup set apart by, around letters that run from right to left.
APART = re.compile(f"\u2068([^{UNSEEN}]*)\u2069")


def unseen(text):
    """The characters that text lets through raw, in pairs around innocent letters aside."""
    return sorted({f"U+{ord(c):04X}" for c in APART.sub(r"\1", text) if c in UNSEEN})


HOSTILE = ['quote " and \' and \\', "</script><b>&amp;", "line\nbreak\ttab",
           "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627", "%% | {x} [y] (z) ; #35; `",
           "unseen " + UNSEEN + "long " * 120]


LONG_AXES = {"tp": "a" * 640, "pp": "pipeline" * 20, "dp": "a" * 639 + "b"}


def long_axes(root):
    """A model of models/ whose axes have names that no picture has room for."""
    text = (root / "models" / "tp_pp_dp_8ranks.json").read_text()
    text = text.replace('"tp-pp-dp"', '"' + "-".join(LONG_AXES.values()) + '"')
    for short, name in LONG_AXES.items():
        text = text.replace(f'"{short}"', f'"{name}"')
    return json.loads(text)


def wide(layers=200):
    """Layers of which no two are alike: a graph too big for Mermaid and for Graphviz."""
    tensors, ops, x = {"x0": {"shape": [8, 64]}}, [], "x0"
    for i in range(layers):
        tensors[f"w{i}"] = {"shape": [64 + i + 1, 64 + i], "parameter": True}
        ops += [{"op": "linear", "inputs": [x, f"w{i}"], "output": f"h{i}"},
                {"op": "gelu", "inputs": [f"h{i}"], "output": f"x{i + 1}"}]
        x = f"x{i + 1}"
    ops.append({"op": "mean_square", "inputs": [x], "output": "loss"})
    return {"schema": "shape2trace.model/1", "name": "wide", "tensors": tensors, "ops": ops,
            "mesh": {"axes": [{"name": "dp", "size": 2, "kind": "data"}]},
            "batch": {"local": 8, "axes": ["dp"]}, "loss": "loss",
            "gradient_sync": {"kind": "per_parameter", "axes": ["dp"], "reduce": "mean"}}


def hostile(turn=0):
    """A two-layer perceptron whose names try to break every format; by `turn` they change places."""
    x, w1, h, w2, y, name = HOSTILE[turn:] + HOSTILE[:turn]
    return {"schema": "shape2trace.model/1", "name": name,
            "mesh": {"axes": [{"name": "tp", "size": 2}]},
            "tensors": {x: {"shape": [4, 8]},
                        w1: {"shape": [16, 8], "parameter": True, "layout": {"tp": "S(0)"}},
                        w2: {"shape": [8, 16], "parameter": True, "layout": {"tp": "S(1)"}}},
            "ops": [{"op": "linear", "inputs": [x, w1], "output": h, "module": "<m \"1\"> \u202e"},
                    {"op": "linear", "inputs": [h, w2], "output": y},
                    {"op": "mean_square", "inputs": [y], "output": "loss"}],
            "loss": "loss"}

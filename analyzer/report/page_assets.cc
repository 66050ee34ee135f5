#include "analyzer/report/page_assets.h"

namespace s2t {

const std::string_view kPageStyle = R"css(
:root{color-scheme:light dark;--fg:#1b1d21;--dim:#5a6068;--bg:#fff;--cell:#f4f5f7;--line:#c9ced6;
--mark:#0b5fad}
@media(prefers-color-scheme:dark){:root{--fg:#e8eaee;--dim:#a3aab4;--bg:#16181c;--cell:#22262c;
--line:#454b54;--mark:#7ab8ff}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1280px;padding:0 20px 60px;background:var(--bg);color:var(--fg);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;overflow-wrap:break-word}
h1{font-size:1.6rem;margin:24px 0 4px;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:36px 0 8px;border-bottom:1px solid var(--line);padding-bottom:4px}
p.shown{margin:0 0 8px;font-weight:600}
p.sub{color:var(--dim);margin:0 0 8px}
nav{position:sticky;top:0;background:var(--bg);border-bottom:1px solid var(--line);padding:8px 0;
z-index:2;display:flex;flex-wrap:wrap;gap:0 16px}
nav a{color:var(--mark);white-space:nowrap}
a:focus-visible,button:focus-visible,input:focus-visible,select:focus-visible,
[tabindex]:focus-visible{outline:3px solid var(--mark);outline-offset:2px}
/* Inside, for what is as wide as its section, which would cut it off. */
[tabindex]:focus-visible{outline-offset:-3px}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:.9rem}
.scroll+.scroll{margin-top:20px}
section{overflow-x:auto;scroll-margin-top:24px;margin:0 -6px;padding:0 6px 6px}
th,td{max-width:26em;text-align:left;padding:4px 8px;border-bottom:1px solid var(--line);vertical-align:top}
td.n,th.n{text-align:right;white-space:nowrap}
td.whole,thead th{white-space:nowrap}
th button{all:unset;cursor:pointer;font-weight:600}
th[aria-sort=ascending] button::after{content:" \2191"}
th[aria-sort=descending] button::after{content:" \2193"}
tbody tr:hover{background:var(--cell)}
.scroll{overflow:auto;border:1px solid var(--line);border-radius:6px}
#events .scroll,#pruned .scroll{max-height:max(640px,80vh)}
.picture{padding:8px}
.controls{display:flex;flex-wrap:wrap;gap:12px;align-items:end;margin:8px 0}
.controls span{max-width:100%}
.controls label{display:flex;flex-direction:column;font-size:.8rem;color:var(--dim)}
input,select,button.plain{font:inherit;color:var(--fg);background:var(--cell);
border:1px solid var(--line);border-radius:5px;padding:4px 8px}
#graph{height:640px;overflow:hidden;border:1px solid var(--line);border-radius:6px;cursor:grab;
touch-action:none}
#graph svg{transform-origin:0 0}
#graph svg .graph>polygon{fill:none;stroke:none}
#graph svg text{fill:var(--fg)}
#graph svg .cluster path,#graph svg .cluster polygon{fill:none;stroke:var(--dim)}
#graph svg .op polygon{fill:var(--cell);stroke:var(--dim)}
#graph svg .edge path{stroke:var(--dim)}
#graph svg .edge polygon{stroke:var(--dim);fill:var(--dim)}
thead th{position:sticky;top:0;background:var(--bg)}
)css";

const std::string_view kPageScript = R"js(
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);
// Letters that run from right to left would reorder the numbers that follow.
const leftward = /([\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefe]+(?: +[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefe]+)*)/;
const setApart = text => String(text).split(leftward).map((part, i) => {
  if (i % 2 === 0) return part;
  const node = document.createElement("bdi");
  node.textContent = part;
  return node;
});
const make = (tag, text, name) => {
  const node = document.createElement(tag);
  if (text !== undefined) node.append(...setApart(text));
  if (name) node.className = name;
  return node;
};
const number = n => n.toLocaleString("en-US");

// --- ranks ---------------------------------------------------------------------------------------
// Atoms are [stride, size], slowest first.
const coordinate = (rank, atoms) =>
  atoms.reduce((c, [stride, size]) => c * size + Math.floor(rank / stride) % size, 0);
const issues = (event, rank) =>
  event.ranks.every(([atoms, at]) => at.includes(coordinate(rank, atoms)));
const groupOf = (family, rank) => {
  let group = [family.atoms.reduce((r, [stride, size]) =>
    r - (Math.floor(rank / stride) % size) * stride, rank)];
  for (const [stride, size] of family.atoms)
    group = group.flatMap(r => [...Array(size).keys()].map(i => r + i * stride));
  if (family.members.length)
    group = group.filter(r => family.members.includes(coordinate(r, family.atoms)));
  return group.includes(rank) ? group.sort((a, b) => a - b) : [];
};

// What to say of a rank that a field cannot mean; "" of one that it can, and of none.
const noRank = field => {
  if (field.validity.valid) return "";
  return field.min === field.max ? `; this page is of rank ${field.min} alone`
    : `; no such rank: there are ${field.min} to ${number(Number(field.max))}`;
};

// --- event table ---------------------------------------------------------------------------------
const columns = data.columns;
const step = 300;
let order = {key: "id", down: false}, limit = step;

function matching() {
  const word = $("find").value.toLowerCase(), rank = $("of-rank").value;
  const issued = e => rank === "" ||
    (/^\d+$/.test(rank) && Number(rank) < data.world && issues(e, Number(rank)));
  const picked = ["phase", "op", "family"].map(key => [key, $("of-" + key).value]);
  return data.events.filter(e =>
    picked.every(([key, value]) => value === "" || e[key] === value) &&
    issued(e) &&
    (word === "" || [e.tensor, e.node, e.module, e.why].some(t => t.toLowerCase().includes(word))));
}

function showEvents() {
  const found = matching();
  const sign = order.down ? -1 : 1;
  found.sort((a, b) => {
    const x = a[order.key] ?? -1, y = b[order.key] ?? -1;
    return (x < y ? -1 : x > y ? 1 : a.id - b.id) * sign;
  });
  const body = $("events-body");
  body.replaceChildren();
  for (const e of found.slice(0, limit)) {
    const row = make("tr");
    row.title = e.why;
    for (const c of columns) {
      const value = e[c.key];
      row.append(make("td", value === null ? "" : c.number ? number(value) : value,
                      c.number ? "n" : c.key === "shape" ? "whole" : ""));
    }
    body.append(row);
  }
  $("events-count").textContent =
    `${number(Math.min(limit, found.length))} of ${number(found.length)} shown, ` +
    `${number(data.events.length)} in all` + noRank($("of-rank"));
  $("more").hidden = found.length <= limit;
}

function eventTable() {
  const head = $("events-head");
  for (const c of columns) {
    const th = make("th", undefined, c.number ? "n" : "");
    th.scope = "col";
    const button = make("button", c.title);
    button.addEventListener("click", () => {
      order = {key: c.key, down: order.key === c.key && !order.down};
      for (const other of head.children) other.removeAttribute("aria-sort");
      th.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      showEvents();
    });
    th.append(button);
    head.append(th);
  }
  head.children[0].setAttribute("aria-sort", "ascending");
  for (const key of ["phase", "op", "family"]) {
    const select = $("of-" + key);
    select.append(new Option("all", ""));
    for (const value of [...new Set(data.events.map(e => e[key]))]) select.append(new Option(value));
  }
  for (const id of ["find", "of-rank", "of-phase", "of-op", "of-family"])
    $(id).addEventListener("input", () => { limit = step; showEvents(); });
  $("more").addEventListener("click", () => { limit += step; showEvents(); });
  showEvents();
}

// --- one rank ------------------------------------------------------------------------------------
function showRank() {
  const field = $("rank"), asked = Math.floor(Number(field.value) || 0);
  const rank = Math.min(Math.max(Number(field.min), asked), Number(field.max));
  const place = data.axes.map(a => `${a.name} ${coordinate(rank, a.atoms)}`).join(", ");
  $("rank-place").textContent =
    `Rank ${rank}` + (place ? `: ${place}` : "") + noRank(field);
  const groups = $("rank-groups");
  groups.replaceChildren();
  for (const family of data.families) {
    const group = groupOf(family, rank);
    const row = make("tr");
    const list = group.length > 16 ? group.slice(0, 16).join(", ") + ", \u2026" : group.join(", ");
    row.append(make("td", family.name), make("td", number(group.length), "n"), make("td", list));
    groups.append(row);
  }
  const sums = new Map();
  for (const e of data.events) {
    if (!issues(e, rank)) continue;
    const key = `${e.phase}|${e.op}|${e.family}`;
    const sum = sums.get(key) ?? {calls: 0, input: 0, output: 0, wire: 0};
    sum.calls += e.repeat;
    sum.input += e.input * e.repeat;
    sum.output += e.output * e.repeat;
    sum.wire += e.wire * e.repeat;
    sums.set(key, sum);
  }
  const body = $("rank-calls");
  body.replaceChildren();
  for (const [key, sum] of sums) {
    const row = make("tr");
    for (const word of key.split("|")) row.append(make("td", word));
    for (const n of [sum.calls, sum.input, sum.output, sum.wire]) row.append(make("td", number(n), "n"));
    body.append(row);
  }
}

// --- pan and zoom --------------------------------------------------------------------------------
function panAndZoom() {
  const frame = $("graph"), svg = frame && frame.querySelector("svg");
  if (!svg) return;
  let x = 0, y = 0, scale = 1;
  const kept = 60;  // px of the picture that stay in the frame
  const within = (at, room, size) => Math.min(room - kept, Math.max(kept - size * scale, at));
  const apply = () => {
    x = within(x, frame.clientWidth, svg.width.baseVal.value);
    y = within(y, frame.clientHeight, svg.height.baseVal.value);
    svg.style.transform = `translate(${x}px,${y}px) scale(${scale})`;
  };
  const zoom = (factor, cx, cy) => {
    const next = Math.min(8, Math.max(0.05, scale * factor));
    x = cx - (cx - x) * next / scale;
    y = cy - (cy - y) * next / scale;
    scale = next;
    apply();
  };
  const fit = () => {
    const box = svg.viewBox.baseVal, wide = svg.width.baseVal.value || box.width;
    scale = Math.min(1, frame.clientWidth / wide);
    x = Math.max(0, (frame.clientWidth - wide * scale) / 2);
    y = 0;
    apply();
  };
  const middle = factor => zoom(factor, frame.clientWidth / 2, frame.clientHeight / 2);
  frame.addEventListener("wheel", e => {
    e.preventDefault();
    const box = frame.getBoundingClientRect();
    zoom(e.deltaY < 0 ? 1.15 : 1 / 1.15, e.clientX - box.left, e.clientY - box.top);
  }, {passive: false});
  let held = null;
  frame.addEventListener("pointerdown", e => {
    held = [e.clientX - x, e.clientY - y];
    frame.setPointerCapture(e.pointerId);
  });
  frame.addEventListener("pointermove", e => {
    if (!held) return;
    [x, y] = [e.clientX - held[0], e.clientY - held[1]];
    apply();
  });
  frame.addEventListener("pointerup", () => { held = null; });
  const keys = {"+": () => middle(1.25), "=": () => middle(1.25), "-": () => middle(0.8), "0": fit,
    ArrowLeft: () => { x += 60; }, ArrowRight: () => { x -= 60; },
    ArrowUp: () => { y += 60; }, ArrowDown: () => { y -= 60; }};
  frame.addEventListener("keydown", e => {
    if (!keys[e.key]) return;
    e.preventDefault();
    keys[e.key]();
    apply();
  });
  $("zoom-in").addEventListener("click", () => middle(1.25));
  $("zoom-out").addEventListener("click", () => middle(0.8));
  $("zoom-fit").addEventListener("click", fit);
  fit();
}

eventTable();
$("rank").addEventListener("input", showRank);
showRank();
panAndZoom();
)js";

}  // namespace s2t

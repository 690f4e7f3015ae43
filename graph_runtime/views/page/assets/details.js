"use strict";
// The panel beside the views: all that is known of the selected node.

function details(panel) {
  const draw = () => panel.replaceChildren(...(state.nid < 0 ? nothing() : about(state.nid)));
  onChange((what) => { if (what === "nid" || what === "plan") { draw(); panel.scrollTop = 0; } });
  draw();
}

function nothing() {
  return [
    el("h2", {}, "Nothing is selected"),
    el("p", { class: "soft" }, "Select a node in any view, or search by name (/). All views show it; here is why it runs where it runs, its layout and memory, its kernel and its neighbours. ? lists the keys."),
    plan().warnings.length ? el("h3", {}, plural(plan().warnings.length, "warning")) : null,
    ...plan().warnings.map((text) => el("p", {}, text)),
  ].filter(Boolean);
}

function about(nid) {
  const n = nodes(), kind = plan().graph.kinds[n.kind[nid]], say = (number) => textOf(number);
  const facts = [
    ["op", say(n.op[nid])], ["kind", kind + (n.inserted[nid] ? ", inserted by the planner" : "")],
    ["device", deviceOf(nid)], ["why here", say(n.cause[nid])], ["type", say(n.type[nid])], ["bytes", n.bytes[nid] ? bytesText(n.bytes[nid]) : ""],
    ["layout", say(n.layout[nid])], ["why so", say(n.layout_cause[nid])],
    ["time", n.ns[nid] === null ? "" : `${nsText(n.ns[nid])} (${n.ns[nid].toLocaleString("en")} ns)`], ["bound by", say(n.bound[nid])],
    ["kernel", say(n.kernel[nid])], ["circular", n.circular && n.circular[nid] ? `${bytesText(n.circular[nid])} of each core's L1 while it runs` : ""],
  ];
  const list = el("dl", {}, facts.filter(([, value]) => value).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
  return [el("h2", { id: "selected" }, n.name[nid]), list, ...memoryOf(nid), ...madeOf(nid), ...neighbours(nid), ...timesOf(nid), ...numbersOf(nid), ...errorOf(nid), ...movedOf(nid), ...kernelOf(nid)];
}

function memoryOf(nid) {
  const rows = [];
  for (const pool of plan().pools) {
    const v = pool.values;
    for (let at = 0; at < v.nid.length; at++) {
      if (v.nid[at] === nid) rows.push([`${pool.device} ${pool.memory}`, v.offset[at].toLocaleString("en"), bytesText(v.extent[at]), v.cores[at] ? `cores ${coreText(v.cores[at])}` : pool.banks > 1 ? `each of ${pool.banks} banks` : "", nsText(v.end[at] - v.begin[at])]);
    }
  }
  return rows.length ? [el("h3", {}, "Memory"), plainTable(["where", "offset", "bytes", "", "held for"], rows, [1, 2])] : [];
}
const coreText = ([top, left, bottom, right]) => `${top},${left} to ${bottom},${right}`;

function madeOf(nid) {
  const n = nodes(), found = [], from = n.from[nid];
  if (from) found.push(el("h3", {}, "Stands for nodes of the source"), el("p", {}, from.join(", ")));
  const notes = plan().graph.notes.filter(([, , nids]) => nids.includes(nid));
  if (notes.length) found.push(el("h3", {}, "Rewrites"), ...notes.slice(0, 20).map(([rule, text]) => el("p", {}, `${rule}: ${text}`)));
  const attrs = textOf(n.attrs[nid]);
  if (attrs) found.push(el("h3", {}, "Attributes"), el("pre", { class: "wrap" }, attrs));
  return found;
}

let edgesOf = null;
/** {in, out}: rows of edges by node, made once a plan. */
function edgeIndex() {
  if (edgesOf && edgesOf.plan === state.plan) return edgesOf;
  const count = nodes().name.length, edges = plan().graph.edges;
  edgesOf = { plan: state.plan, in: Array.from({ length: count }, () => []), out: Array.from({ length: count }, () => []) };
  edges.from.forEach((from, at) => { edgesOf.out[from].push(at); edgesOf.in[edges.to[at]].push(at); });
  return edgesOf;
}

function neighbours(nid) {
  const edges = plan().graph.edges, index = edgeIndex(), most = 40;
  const table = (title, rows, end) => {
    if (!rows.length) return [];
    const lines = rows.slice(0, most).map((at) => [nodeLink(edges[end][at]), `${textOf(edges.type[at])} ${textOf(edges.layout[at])}`, bytesText(edges.bytes[at])]);
    return [el("h3", {}, title + (rows.length > most ? `, ${rows.length - most} more` : "")), plainTable(["node", "type and layout", "bytes"], lines, [2])];
  };
  return [...table("Reads", index.in[nid], "from"), ...table("Is read by", index.out[nid], "to")];
}

function timesOf(nid) {
  const rows = [];
  for (const line of plan().timelines) {
    const e = line.events;
    for (let at = 0; at < e.nid.length && rows.length < 12; at++) {
      if (e.nid[at] === nid) rows.push([line.label, line.queues[e.queue[at]], `${e.run[at]}`, nsText(e.start[at]), nsText(e.ns[at]), line.bases[e.basis[at]]]);
    }
  }
  return rows.length ? [el("h3", {}, "When"), plainTable(["", "queue", "run", "begins", "takes", "basis"], rows, [2, 3, 4])] : [];
}

/** What each tensor of the node held, a table an output, a column a run that kept it. */
function numbersOf(nid) {
  const t = plan().tensors, columns = new Map();
  if (!t) return [];
  t.nid.forEach((of, at) => { if (of === nid) columns.set(t.name[at], [...(columns.get(t.name[at]) || []), at]); });
  const facts = [["elements", "size"], ["min", "min"], ["max", "max"], ["mean", "mean"], ["std", "std"], ["NaN", "nan"], ["infinite", "inf"], ["zeros", "zeros"]];
  const found = [...columns].flatMap(([name, rows]) => [
    columns.size > 1 ? el("p", { class: "soft" }, name) : null,
    plainTable(["", ...rows.map((at) => t.run[at])], facts.map(([label, key]) => [label, ...rows.map((at) => numberText(t[key][at], 4))]), rows.map((_, i) => i + 1)),
    ...rows.filter((at) => t.first[at].length).map((at) => el("p", { class: "soft" }, `first, ${t.run[at]}: ${t.first[at].map((value) => numberText(value)).join(", ")}${t.size[at] > t.first[at].length ? ", …" : ""}`)),
  ]).filter(Boolean);
  return found.length ? [el("h3", {}, "Numbers"), ...found] : [];
}
/** All digits, or so many of a number that is not whole; "nan" and the like stay text. */
const numberText = (value, digits = 0) => (value === null || value === undefined ? "" : String(digits && typeof value === "number" && !Number.isInteger(value) ? Number(value.toPrecision(digits)) : value));

function errorOf(nid) {
  const rows = plan().accuracy ? plan().accuracy.nodes.filter((row) => row.nid === nid) : [], found = [];
  for (const row of rows) {
    const sides = [["alone", row.alone], ["added up", row.added]].filter(([, side]) => side);
    found.push(plainTable(["", "nmse", "PCC", "max abs", "ULP of bf16"], sides.map(([name, side]) => [name, exact(side.nmse), side.correlation === null ? "" : side.correlation.toFixed(7), exact(side.max_abs), short(side.max_ulp)]), [1, 2, 3, 4]));
    for (const [name, side] of sides) {
      if (side.worst && side.worst.length) found.push(el("p", { class: "soft" }, `worst elements, ${name}`), plainTable(["element", "got", "wanted"], side.worst.map((one) => [elementText(one), valueText(one.got), valueText(one.wanted)]), [0, 1, 2]));
    }
  }
  return found.length ? [el("h3", {}, `Against ${plan().accuracy.judge}`), ...found] : [];
}

const elementText = (one) => one.at.join(", ");
const valueText = (value) => (typeof value === "number" ? short(value) : String(value));

function movedOf(nid) {
  const row = data.moved && data.moved.rows.find((one) => one.nids[state.plan] === nid);
  if (!row) return [];
  const rows = ["A", "B"].map((side, at) => [side, row.device[at] || "not there", row.layout[at] || "", nsText(row.ns[at]), row.cause[at] || ""]);
  return [el("h3", {}, `In both plans: ${row.what || "equal"}, ${row.delta > 0 ? "+" : ""}${nsText(row.delta)}`), plainTable(["", "device", "layout", "time", "why"], rows, [3])];
}

function kernelOf(nid) {
  const name = textOf(nodes().kernel[nid]), code = plan().graph.codes[name];
  return code ? [el("h3", {}, `Kernel ${name}`), el("p", { class: "soft" }, `${code.file}, line ${code.line}`), code.text ? el("pre", { tabindex: 0 }, code.text) : null].filter(Boolean) : [];
}

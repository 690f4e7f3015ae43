"use strict";
// The page's data, what is selected, and helpers that all views share. docs/view.md describes the data.

const data = JSON.parse(document.getElementById("data").textContent);
const state = { plan: 0, nid: -1, colour: "device", time: null, listeners: [] };

const plan = () => data.plans[state.plan];
const textOf = (number) => plan().texts[number];
const nodes = () => plan().graph.nodes;
const nodeName = (nid) => nodes().name[nid];
const deviceOf = (nid) => plan().devices[nodes().device[nid]].name;

/** Calls fn(what) after each change: "nid", "plan", "colour", "time" or "theme". */
function onChange(fn) { state.listeners.push(fn); }
function changed(what) { for (const fn of state.listeners) fn(what); }

/** Selects a node in every view; -1 selects none. */
function select(nid) {
  if (nid === state.nid) return;
  state.nid = nid;
  changed("nid");
  say(nid < 0 ? "nothing is selected" : `${nodeName(nid)}, ${textOf(nodes().op[nid])} on ${deviceOf(nid)}`);
}

/** Shows another plan; the selected node stays where that plan has one of its name. */
function showPlan(at) {
  const name = state.nid >= 0 ? nodeName(state.nid) : null;
  state.plan = at;
  state.nid = name === null ? -1 : nodes().name.indexOf(name);
  state.time = null;
  changed("plan");
}

function set(what, value) { state[what] = value; changed(what); }

/** An element: attributes by name, "on..." listeners, children as nodes or text. Text never becomes markup. */
function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(made.style, value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

const live = el("div", { class: "hidden", "aria-live": "polite", id: "live" });
/** Tells a screen reader. */
function say(text) { live.textContent = text; }

// ---------------------------------------------------------------- numbers and colours

function short(number) {
  if (number === null || number === undefined) return "";
  return Number.isInteger(number) ? number.toLocaleString("en") : Number(number.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 });
}
function scaled(number, units, step) {
  let at = 0, value = number;
  while (Math.abs(value) >= step && at + 1 < units.length) { value /= step; at++; }
  return `${at && Math.abs(value) < 100 ? value.toPrecision(3) : Math.round(value).toLocaleString("en")} ${units[at]}`;
}
const nsText = (ns) => (ns === null || ns === undefined ? "" : scaled(ns, ["ns", "us", "ms", "s"], 1000));
const bytesText = (bytes) => (bytes === null || bytes === undefined ? "" : scaled(bytes, ["B", "KiB", "MiB", "GiB", "TiB"], 1024));
const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
const exact = (number) => (number === null || !Number.isFinite(number) ? "" : number === 0 ? "0" : number.toExponential(2));

const PALETTE = {
  light: ["#3b76c4", "#d9822b", "#3d9a63", "#a05bb5", "#c0504d", "#4aa3a2", "#8c7a3e", "#6b7280"],
  dark: ["#6ca0e6", "#eba45c", "#63bd87", "#c48ad6", "#e38380", "#6fc7c5", "#bfae6d", "#9aa3b2"],
};
const dark = () => document.documentElement.dataset.theme === "dark";
const paint = (at) => PALETTE[dark() ? "dark" : "light"][((at % 8) + 8) % 8];
const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
/** From pale (0) to strong (1). */
function heat(share) {
  const s = Math.min(Math.max(share, 0), 1);
  return dark() ? `hsl(${215 - 195 * s} 65% ${28 + 27 * s}%)` : `hsl(${215 - 195 * s} 70% ${90 - 38 * s}%)`;
}

/** What a node's colour says, by state.colour: {of(nid) -> colour, key: [[colour, text]]}. */
function colouring() {
  const way = COLOURINGS[state.colour] || COLOURINGS.device;
  return way.make();
}
function scaleOf(values, log) {
  const known = values.filter((value) => value > 0);
  if (!known.length) return () => 0;
  const low = Math.min(...[known.reduce((a, b) => Math.min(a, b))]), high = known.reduce((a, b) => Math.max(a, b));
  if (!log) return (value) => (value || 0) / high;
  const span = Math.log(high / low) || 1;
  return (value) => (value > 0 ? 0.05 + 0.95 * Math.log(value / low) / span : 0);
}
function byClass(numberOf, nameOf) {
  const found = new Map();
  for (let nid = 0; nid < nodes().name.length; nid++) if (!found.has(numberOf(nid))) found.set(numberOf(nid), found.size);
  return { of: (nid) => paint(found.get(numberOf(nid))), key: [...found].slice(0, 8).map(([number, at]) => [paint(at), nameOf(number)]) };
}
const heatKey = (least, most) => [[heat(0), least], [heat(0.5), "…"], [heat(1), most]];
const COLOURINGS = {
  device: { label: "device", make: () => ({ of: (nid) => paint(nodes().device[nid]), key: plan().devices.map((device, did) => [paint(did), device.name]) }) },
  time: {
    label: "time",
    make() { const scale = scaleOf(nodes().ns, true); return { of: (nid) => heat(scale(nodes().ns[nid])), key: heatKey("short", "long") }; },
  },
  bound: { label: "what bounds it", make: () => byClass((nid) => nodes().bound[nid], (number) => textOf(number) || "takes no time") },
  dtype: { label: "dtype", make: () => byClass((nid) => nodes().dtype[nid], (number) => textOf(number)) },
  memory: {
    label: "memory",
    make() { const scale = scaleOf(nodes().bytes, true); return { of: (nid) => heat(scale(nodes().bytes[nid])), key: heatKey("few bytes", "many") }; },
  },
  error: {
    label: "error",
    make() {
      const rows = plan().accuracy ? plan().accuracy.nodes : [], error = new Map();
      for (const row of rows) if (row.nid !== null) error.set(row.nid, Math.max(error.get(row.nid) || 0, (row.added || row.alone).nmse || 0));
      const scale = scaleOf([...error.values()], true);
      return { of: (nid) => (error.has(nid) ? heat(scale(error.get(nid))) : variable("--line")), key: heatKey("exact", "worst") };
    },
  },
  moved: {
    label: "what moved",
    make() {
      const kinds = ["device", "layout", "time", "only in A", "only in B"], of = new Map();
      for (const row of data.moved ? data.moved.rows : []) if (row.nids[state.plan] !== null) of.set(row.nids[state.plan], kinds.indexOf(row.what));
      return { of: (nid) => ((of.get(nid) ?? -1) < 0 ? variable("--line") : paint(of.get(nid))), key: kinds.map((kind, at) => [paint(at), kind]) };
    },
  },
};
/** The colourings that this page has data for. */
function colourings() {
  return Object.keys(COLOURINGS).filter((name) => (name !== "error" || plan().accuracy) && (name !== "moved" || data.moved));
}

/** A control that chooses the colouring, with its key; the views that colour nodes share it. */
function colourBar() {
  const key = el("span", { class: "key" });
  const choose = el("select", { "aria-label": "colour nodes by", onchange: () => set("colour", choose.value) },
    colourings().map((name) => el("option", { value: name }, COLOURINGS[name].label)));
  const fill = () => {
    choose.value = state.colour;
    key.replaceChildren(...colouring().key.map(([colour, text]) => el("span", {}, el("span", { class: "swatch", style: { background: colour } }), text)));
  };
  onChange((what) => { if (what !== "nid" && what !== "time") fill(); });
  fill();
  return el("span", { class: "bar", style: { paddingBottom: 0 } }, "colour", choose, key);
}

/** A button that selects a node and shows the details of it. */
function nodeLink(nid, label) {
  return el("button", { class: "link", onclick: () => { select(nid); } }, label || nodeName(nid));
}

/** A small table: head texts, rows of cells; a cell that is a number's text goes right when its column says so. */
function plainTable(head, rows, right = []) {
  const cell = (tag) => (value, at) => el(tag, right.includes(at) ? { class: "n" } : {}, value);
  return el("table", {}, el("thead", {}, el("tr", {}, head.map(cell("th")))), el("tbody", {}, rows.map((row) => el("tr", {}, row.map(cell("td"))))));
}

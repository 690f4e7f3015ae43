"use strict";
// The page: its head with search, the tabs, the views that they show, and the keys.

const VIEWS = [
  ["overview", "Overview", overview, () => plan().answers !== null],
  ["graph", "Graph", graphView, () => plan().graph.tree !== null],
  ["timeline", "Timeline", timelineView, () => plan().timelines.length > 0],
  ["memory", "Memory", memoryView, () => plan().pools.length > 0],
  ["roofline", "Roofline", rooflineView, () => plan().roofline.length > 0],
  ["cores", "Cores", coresView, () => plan().cores.length > 0],
  ["accuracy", "Accuracy", accuracyView, () => plan().accuracy !== null],
  ["tables", "Tables", tablesView, () => true],
  ["moved", "A and B", movedView, () => data.moved !== null],
];
const shownViews = VIEWS.filter(([, , , has]) => has());
const made = {}; // the views that were shown once, by name; what tests look at

function page() {
  const sections = {}, tabs = {};
  const main = el("main", { id: "views" }), bar = el("nav", { class: "tabs", role: "tablist", "aria-label": "views" });
  const panel = el("aside", { "aria-label": "selected node" });
  function show(name) {
    for (const [other] of shownViews) { sections[other].hidden = other !== name; tabs[other].setAttribute("aria-selected", String(other === name)); tabs[other].tabIndex = other === name ? 0 : -1; }
    if (!made[name]) made[name] = shownViews.find(([one]) => one === name)[2](sections[name]) || {};
    else if (made[name].reveal && state.nid >= 0) requestAnimationFrame(() => made[name].reveal());
    history.replaceState(null, "", `#${name}`);
  }
  shownViews.forEach(([name, label], at) => {
    sections[name] = el("section", { id: `view-${name}`, role: "tabpanel", "aria-label": label, hidden: true });
    tabs[name] = el("button", { role: "tab", id: `tab-${name}`, "aria-controls": `view-${name}`, title: `key ${at + 1}`, onclick: () => show(name) }, label);
    main.append(sections[name]);
    bar.append(tabs[name]);
  });
  bar.addEventListener("keydown", (event) => {
    const at = shownViews.findIndex(([name]) => tabs[name] === document.activeElement), step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || at < 0) return;
    const [name] = shownViews[(at + step + shownViews.length) % shownViews.length];
    show(name);
    tabs[name].focus();
  });
  document.getElementById("page").append(head(), bar, main, panel, live);
  details(panel);
  keys(show);
  const asked = location.hash.slice(1);
  show(shownViews.some(([name]) => name === asked) ? asked : shownViews[0][0]);
}

function head() {
  const facts = el("span", { class: "facts" });
  const tell = () => { const t = plan().answers && plan().answers.time; facts.textContent = `${plural(nodes().name.length, "node")}${t ? ` · ${nsText(t.latency_ns)} a run (${t.basis})` : ""}`; };
  const sides = data.plans.length < 2 ? null : el("span", { role: "group", "aria-label": "plan" }, data.plans.map((one, at) => el("button", { title: one.name, "aria-pressed": String(at === 0), id: `plan-${"ab"[at]}`, onclick: () => showPlan(at) }, `plan ${"AB"[at]}`)));
  onChange((what) => { if (what === "plan") { tell(); [...sides.children].forEach((button, at) => button.setAttribute("aria-pressed", String(at === state.plan))); } });
  tell();
  return el("header", {}, el("h1", {}, data.title), facts, sides, el("span", { class: "right" }, search(), el("button", { id: "theme", title: "light or dark", onclick: () => theme(dark() ? "light" : "dark") }, "◐"), el("button", { title: "keys (?)", onclick: help }, "?")));
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  changed("theme");
}

function search() {
  const list = el("ul", { role: "listbox", hidden: true, id: "found" });
  let found = [], at = 0;
  const input = el("input", { type: "search", id: "search", placeholder: "search nodes ( / )", role: "combobox", "aria-expanded": "false", "aria-controls": "found", "aria-label": "search nodes by name, op or device", autocomplete: "off", oninput: () => look(), onkeydown: (event) => key(event), onblur: () => setTimeout(() => { list.hidden = true; }, 150) });
  function look() {
    const text = input.value.trim().toLowerCase(), n = nodes();
    found = [];
    for (const runs of [true, false]) { // what runs comes before inputs and parameters
      for (let nid = 0; text && nid < n.name.length && found.length < 30; nid++) {
        if (n.kind[nid] < 2 === runs && (n.name[nid].toLowerCase().includes(text) || textOf(n.op[nid]).toLowerCase() === text)) found.push(nid);
      }
    }
    at = 0;
    draw();
  }
  function draw() {
    list.hidden = !found.length;
    input.setAttribute("aria-expanded", String(!list.hidden));
    list.replaceChildren(...found.map((nid, i) => el("li", { role: "option", "aria-selected": String(i === at), onmousedown: () => take(i) }, `${nodeName(nid)} `, el("span", { class: "soft" }, `${textOf(nodes().op[nid])} on ${deviceOf(nid)}`))));
  }
  function take(i) { select(found[i]); list.hidden = true; }
  function key(event) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") { at = (at + (event.key === "ArrowDown" ? 1 : -1) + found.length) % Math.max(found.length, 1); draw(); event.preventDefault(); }
    if (event.key === "Enter" && found.length) take(at);
    if (event.key === "Escape") { input.value = ""; look(); input.blur(); }
    event.stopPropagation();
  }
  return el("span", { class: "search" }, input, list);
}

const KEYS = [["1 to 9", "the views"], ["/", "search"], ["n, p", "the next node, the one before"], ["Esc", "select nothing"], ["arrows", "move the picture that has the focus"], ["+, -", "zoom it"], ["f or 0", "show all of it"], ["Enter", "graph: close the group of the selected node"], ["c, w", "timeline: critical path, flows and waits"], ["t", "light or dark"], ["a, b", "of two plans the first, the second"]];
function help() {
  const dialog = el("dialog", { "aria-label": "keys", onclose: () => dialog.remove() }, el("h2", {}, "Keys"), plainTable(["key", "what it does"], KEYS.map(([key, text]) => [el("kbd", {}, key), text])), el("p", { class: "soft" }, "Wheel: zoom. Drag: move. Click: select; on a group: open or close it. A click on an empty place of time or memory shows what is alive then."), el("form", { method: "dialog" }, el("button", {}, "close")));
  document.body.append(dialog);
  dialog.showModal();
}

function keys(show) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || document.querySelector("dialog[open]")) return;
    const number = Number(event.key), step = { n: 1, p: -1 }[event.key];
    if (number >= 1 && number <= shownViews.length) show(shownViews[number - 1][0]);
    else if (step) { const count = nodes().name.length; select(((state.nid < 0 && step < 0 ? 0 : state.nid) + step + count) % count); }
    else if (event.key === "/") document.getElementById("search").focus();
    else if (event.key === "Escape") select(-1);
    else if (event.key === "?") help();
    else if (event.key === "t") theme(dark() ? "light" : "dark");
    else if ((event.key === "a" || event.key === "b") && data.plans.length > 1) showPlan(event.key === "a" ? 0 : 1);
    else return;
    event.preventDefault();
  });
}

document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
page();

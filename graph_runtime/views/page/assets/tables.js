"use strict";
// Tables that sort, filter and are exported as CSV; only rows in sight are in the document.

const ROW = 25;

/** columns: {name, of(row) -> value, text(value), wide, number}; nidOf(row): the node that a row is about, or null;
    pick(row): what a click does; note: what stands beside the number of rows. */
function dataTable(name, columns, rows, nidOf, pick = (row) => { if (nidOf(row) !== null) select(nidOf(row)); }, note = "") {
  const table = { sort: -1, down: false, filters: columns.map(() => ""), shown: rows };
  const numeric = columns.map((column) => column.number ?? rows.slice(0, 50).some((row) => typeof column.of(row) === "number"));
  const cell = (column, row) => { const value = column.of(row); return value === null || value === undefined ? "" : column.text ? column.text(value) : typeof value === "number" ? short(value) : String(value); };
  const body = el("tbody"), count = el("span", { class: "soft" });
  const heads = columns.map((column, at) => el("th", { scope: "col", "aria-sort": "none" }, el("button", { onclick: () => sort(at) }, column.name)));
  const filters = columns.map((column, at) => el("th", {}, el("input", { "aria-label": `filter ${column.name}`, placeholder: numeric[at] ? "> 10" : "filter", oninput: (event) => { table.filters[at] = event.target.value; sift(); } })));
  const widths = columns.map((column, at) => column.wide || (numeric[at] ? 1.2 : 1)), all = widths.reduce((a, b) => a + b, 0);
  const grid = el("div", { class: "grid", tabindex: 0, role: "region", "aria-label": `table of ${name}`, onscroll: () => fill() },
    el("table", { "aria-rowcount": rows.length, style: { minWidth: `${all * 78}px` } }, el("colgroup", {}, widths.map((wide) => el("col", { style: { width: `${100 * wide / all}%` } }))), el("thead", {}, el("tr", {}, heads), el("tr", {}, filters)), body));
  new ResizeObserver(() => fill()).observe(grid);

  function sort(at) {
    table.down = table.sort === at ? !table.down : numeric[at];
    table.sort = at;
    heads.forEach((head, i) => head.setAttribute("aria-sort", i !== at ? "none" : table.down ? "descending" : "ascending"));
    sift();
  }
  function sift() {
    const tests = table.filters.map((text, at) => (text.trim() ? test(text.trim(), numeric[at], columns[at]) : null));
    table.shown = rows.filter((row) => tests.every((passes, at) => !passes || passes(columns[at].of(row), row)));
    if (table.sort >= 0) {
      const of = columns[table.sort].of, sign = table.down ? -1 : 1, keys = new Map(table.shown.map((row) => [row, of(row)]));
      table.shown.sort((a, b) => { const x = keys.get(a), y = keys.get(b); if (x === y) return 0; if (x === null || x === undefined) return 1; if (y === null || y === undefined) return -1; return x < y ? -sign : sign; });
    }
    grid.scrollTop = 0;
    fill();
  }
  function test(text, number, column) {
    const compared = number && text.match(/^(<=|>=|<|>|=)\s*(-?[\d.]+(?:e-?\d+)?)$/i);
    if (compared) { const by = Number(compared[2]); return (value) => value !== null && value !== undefined && { "<": value < by, ">": value > by, "<=": value <= by, ">=": value >= by, "=": value === by }[compared[1]]; }
    const low = text.toLowerCase();
    return (value, row) => cell(column, row).toLowerCase().includes(low) || String(value).toLowerCase().includes(low);
  }
  function fill() {
    if (!grid.isConnected && body.children.length) return; // it was replaced: its rows may be another plan's
    const first = Math.max(0, Math.floor(grid.scrollTop / ROW) - 10), last = Math.min(table.shown.length, first + Math.ceil((grid.clientHeight || 600) / ROW) + 30);
    const space = (count) => el("tr", { class: "space", "aria-hidden": "true" }, el("td", { colspan: columns.length, style: { height: `${count * ROW}px` } }));
    body.replaceChildren(space(first), ...table.shown.slice(first, last).map((row, at) => {
      const nid = nidOf(row);
      return el("tr", { "aria-rowindex": first + at + 1, "aria-selected": String(nid !== null && nid === state.nid), onclick: () => pick(row) },
        columns.map((column, i) => { const text = cell(column, row); return el("td", { class: numeric[i] ? "n" : null, title: text }, text); }));
    }), space(table.shown.length - last));
    count.textContent = `${table.shown.length.toLocaleString("en")} of ${plural(rows.length, "row")}`;
  }
  function csv() {
    // a spreadsheet runs cells that begin with these as formulas, and names are the model's: a quote keeps them text
    const safe = (value) => (typeof value === "number" ? String(value) : `"${(/^[=+\-@\t\r]/.test(String(value ?? "")) ? "'" : "") + String(value ?? "").replaceAll('"', '""')}"`);
    return [columns.map((column) => safe(column.name)), ...table.shown.map((row) => columns.map((column) => safe(column.of(row))))].map((line) => line.join(",")).join("\r\n");
  }
  const save = () => {
    const link = el("a", { href: URL.createObjectURL(new Blob([csv()], { type: "text/csv" })), download: `${name}.csv` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  onChange((what) => { if (what === "nid" && grid.isConnected) fill(); });
  const element = el("div", { style: { display: "flex", flexDirection: "column", flex: "1 1 auto", minHeight: "240px" } }, el("div", { class: "bar" }, el("button", { onclick: save }, "CSV"), count, el("span", { class: "soft" }, note)), grid);
  fill();
  return { element, csv, sort, get shown() { return table.shown; } };
}

function tablesView(section) {
  const made = {};
  let shown = "nodes";
  const room = el("div", { style: { display: "flex", flex: "1 1 auto", minHeight: 0 } });
  const choose = el("select", { "aria-label": "table", onchange: () => { shown = choose.value; draw(); } }, []);
  function draw() {
    if (!tableNames().includes(shown)) shown = "nodes"; // the other plan had it
    choose.replaceChildren(...tableNames().map((name) => el("option", {}, name)));
    choose.value = shown;
    made.table = TABLES[shown]();
    room.replaceChildren(made.table.element);
  }
  onChange((what) => { if (what === "plan") draw(); });
  section.append(el("div", { class: "bar", style: { paddingBottom: 0 } }, "table of", choose), room);
  draw();
  return made;
}

const TABLES = {
  nodes() {
    const n = nodes(), kinds = plan().graph.kinds;
    const column = (key) => (nid) => textOf(n[key][nid]);
    return dataTable("nodes", [
      { name: "node", of: (nid) => n.name[nid], wide: 3 }, { name: "op", of: column("op") }, { name: "kind", of: (nid) => kinds[n.kind[nid]] }, { name: "device", of: deviceOf },
      { name: "ns", of: (nid) => n.ns[nid], number: true }, { name: "bound by", of: column("bound") }, { name: "type", of: column("type"), wide: 2 }, { name: "layout", of: column("layout"), wide: 2 },
      { name: "bytes", of: (nid) => n.bytes[nid] }, { name: "why", of: column("cause"), wide: 3 },
    ], [...n.name.keys()], (nid) => nid);
  },
  copies() {
    const n = nodes(), edges = plan().graph.edges, index = edgeIndex(), copies = [...n.name.keys()].filter((nid) => textOf(n.op[nid]) === "__copy"), source = (nid) => (index.in[nid].length ? edges.from[index.in[nid][0]] : null);
    return dataTable("copies", [
      { name: "copy", of: (nid) => n.name[nid], wide: 2 }, { name: "of", of: (nid) => (source(nid) === null ? "" : nodeName(source(nid))), wide: 2 }, { name: "from", of: (nid) => (source(nid) === null ? "" : deviceOf(source(nid))) }, { name: "to", of: deviceOf },
      { name: "bytes", of: (nid) => n.bytes[nid] }, { name: "ns", of: (nid) => n.ns[nid], number: true }, { name: "when", of: (nid) => (n.kind[nid] === 4 ? "an input is set" : "each run") }, { name: "inserted", of: (nid) => (n.inserted[nid] ? "yes" : "") }, { name: "why", of: (nid) => textOf(n.cause[nid]), wide: 3 },
    ], copies, (nid) => nid);
  },
  events() {
    const rows = plan().timelines.flatMap((line, which) => line.events.nid.map((_, at) => [which, at])), lines = plan().timelines;
    const of = (key) => ([which, at]) => lines[which].events[key][at];
    return dataTable("events", [
      { name: "node", of: (row) => nodeName(of("nid")(row)), wide: 3 }, { name: "op", of: (row) => textOf(nodes().op[of("nid")(row)]) }, { name: "timeline", of: ([which]) => lines[which].label }, { name: "queue", of: (row) => lines[row[0]].queues[of("queue")(row)] },
      { name: "run", of: of("run") }, { name: "start ns", of: of("start") }, { name: "ns", of: of("ns") }, { name: "dispatch ns", of: of("dispatch") }, { name: "basis", of: (row) => lines[row[0]].bases[of("basis")(row)] },
    ], rows, (row) => of("nid")(row));
  },
  buffers() {
    const rows = plan().pools.flatMap((pool) => pool.values.nid.map((_, at) => [pool, at])), of = (key) => ([pool, at]) => pool.values[key][at];
    return dataTable("buffers", [
      { name: "value of", of: (row) => nodeName(of("nid")(row)), wide: 3 }, { name: "device", of: ([pool]) => pool.device }, { name: "memory", of: ([pool]) => pool.memory }, { name: "kind", of: (row) => KINDS[of("kind")(row)] }, { name: "storage", of: of("sid") },
      { name: "offset", of: of("offset") }, { name: "bytes of a bank", of: of("extent") }, { name: "from ns", of: of("begin") }, { name: "to ns", of: of("end") }, { name: "cores", of: (row) => (of("cores")(row) ? coreText(of("cores")(row)) : "") },
    ], rows, (row) => of("nid")(row));
  },
  tensors() {
    const t = plan().tensors, of = (key) => (at) => t[key][at], column = (name, key) => ({ name, of: of(key), number: true, text: (value) => numberText(value) });
    return dataTable("tensors", [
      { name: "value", of: of("name"), wide: 3 }, { name: "run", of: of("run"), wide: 1 }, column("elements", "size"), column("min", "min"), column("max", "max"), column("mean", "mean"), column("std", "std"),
      column("NaN", "nan"), column("infinite", "inf"), column("zeros", "zeros"), { name: "first", of: (at) => t.first[at].join(", "), wide: 4 },
    ], [...t.nid.keys()], of("nid"), undefined, t.left_out ? `${plural(t.left_out, "more tensor")} left out` : "");
  },
};
/** The tables that this plan has data for. */
const tableNames = () => Object.keys(TABLES).filter((name) => name !== "tensors" || plan().tensors);

// ---------------------------------------------------------------- two plans

function movedView(section) {
  const moved = data.moved, names = data.plans.map((one, at) => `${"AB"[at]}: ${one.name}`);
  const unit = (row, value) => (value === null ? "none" : row.unit === "ns" ? nsText(value) : row.unit.startsWith("bytes") ? bytesText(value) : `${short(value)}${row.unit ? ` ${row.unit}` : ""}`);
  const change = ([a, b]) => (a && b !== null ? `${b >= a ? "+" : ""}${(100 * (b / a - 1)).toFixed(1)} %` : "");
  const latency = moved.totals[0].values, side = (at) => (row) => row.nids[at];
  const table = dataTable("moved", [
    { name: "node", of: (row) => row.name, wide: 3 }, { name: "op", of: (row) => row.op }, { name: "what", of: (row) => row.what || "equal", wide: 1.2 }, { name: "A", of: (row) => row.device[0] }, { name: "B", of: (row) => row.device[1] },
    { name: "ns in A", of: (row) => row.ns[0], number: true }, { name: "ns in B", of: (row) => row.ns[1], number: true }, { name: "B - A ns", of: (row) => row.delta, number: true },
    { name: "why in A", of: (row) => row.cause[0], wide: 2 }, { name: "why in B", of: (row) => row.cause[1], wide: 2 }, { name: "layout in A", of: (row) => row.layout[0] }, { name: "layout in B", of: (row) => row.layout[1] },
  ], moved.rows, (row) => side(state.plan)(row), (row) => {
    if (row.nids[state.plan] === null) showPlan(1 - state.plan); // it is in the other plan alone
    select(row.nids[state.plan]);
  });
  const counts = Object.entries(moved.counts).filter(([, count]) => count).map(([what, count]) => (what.startsWith("only") ? `${count} ${what}` : `${plural(count, "node")} changed ${what}`));
  section.append(el("p", { class: "say" }, `${names.join("   ")}. One run takes ${nsText(latency[0])} in A and ${nsText(latency[1])} in B (${change(latency)}). ${counts.length ? counts.join(", ") : "No node moved"}.`),
    el("div", { class: "scroll", style: { flex: "0 0 auto", maxHeight: "40vh" } }, plainTable(["", "A", "B", "change"], moved.totals.map((row) => [row.what, unit(row, row.values[0]), unit(row, row.values[1]), change(row.values)]), [1, 2, 3])), table.element);
  return { table };
}

"use strict";
// The first view: where nodes run and why, what bounds the time, what fills the memory.

function overview(section) {
  const draw = () => section.replaceChildren(...(plan().problem ? [el("p", { class: "problem", role: "alert" }, `Does not run: ${plan().problem}`)] : []),
    el("div", { class: "cards" }, ...[whereCard(), whenCard(), memoryCard(), comparedCard()].filter(Boolean)), madeBy());
  onChange((what) => { if (what === "plan" || what === "theme") draw(); });
  draw();
}

function madeBy() {
  return el("p", { class: "soft" }, data.command ? `made by: ${data.command}` : "");
}

const card = (title, ...parts) => el("article", { class: "card" }, el("h2", {}, title), ...parts.flat().filter(Boolean));
function meter(parts, label) {
  return el("div", { class: "meter", role: "img", "aria-label": label }, parts.map(([share, colour, title]) => el("i", { title, style: { width: `${100 * share}%`, background: colour } })));
}

function whereCard() {
  const told = plan().answers && plan().answers.placement;
  if (!told) return null;
  const all = told.devices.reduce((sum, row) => sum + row.nodes, 0) || 1;
  const most = told.devices.reduce((a, b) => (b.nodes > a.nodes ? b : a));
  const copies = told.copies.filter((row) => !row.at_input), moved = copies.reduce((sum, row) => sum + row.bytes, 0);
  return card("Where did my nodes go, and why?",
    el("p", { class: "say" }, `${most.nodes.toLocaleString("en")} of ${plural(all, "node")} run on ${most.device}; `
      + (copies.length ? `copies of each run: ${copies.reduce((sum, row) => sum + row.copies, 0).toLocaleString("en")}, ${bytesText(moved)}.` : "no run copies anything.")),
    meter(told.devices.map((row, did) => [row.nodes / all, paint(did), `${row.device}: ${row.nodes}`]), told.devices.map((row) => `${row.device} ${row.nodes}`).join(", ")),
    plainTable(["device", "board", "nodes", "time", "share"], told.devices.map((row) => [row.device, row.board, row.nodes.toLocaleString("en"), nsText(row.ns), percent(row.share)]), [2, 3, 4]),
    el("h3", {}, "Why"),
    plainTable(["nodes", "on", "because", "as"], told.causes.map((row) => [row.nodes.toLocaleString("en"), row.device, row.cause, nodeLink(row.nid)]), [0]),
    told.more_causes ? el("p", { class: "soft" }, `and ${plural(told.more_causes, "other cause")}; the table of nodes has all`) : null,
    told.copies.length ? [el("h3", {}, "Copies"), plainTable(["from", "to", "when", "copies", "bytes", "time"],
      told.copies.map((row) => [row.from, row.to, row.at_input ? "when an input is set" : "each run", row.copies.toLocaleString("en"), bytesText(row.bytes), nsText(row.ns)]), [3, 4, 5])] : null,
    told.predictions.length ? [el("h3", {}, "How good is it"), plainTable(["objective", "predicted", "none below", "", "best single device"],
      told.predictions.map((row) => [row.objective, nsText(row.ns), nsText(row.bound_ns), row.status, row.single ? `${row.single} ${nsText(row.single_ns)}` : "none has room"]), [1, 2])] : null);
}

function whenCard() {
  const told = plan().answers && plan().answers.time;
  if (!told) return null;
  if (!told.slowest.length) return card("What bounds the time?", el("p", {}, "Nothing runs."));
  const first = told.bounds[0], busiest = told.queues.reduce((a, b) => (b.utilisation > a.utilisation ? b : a));
  return card("What bounds the time?",
    el("p", { class: "say" }, `A run takes ${nsText(told.latency_ns)} (${told.basis}). ${first.bound} on ${first.device} bounds nodes with ${percent(first.share)} of the work; `
      + `the busiest queue is ${busiest.queue}, ${percent(busiest.utilisation)} of the time.`),
    meter(told.bounds.map((row, at) => [row.share, paint(at), `${row.device} ${row.bound}: ${percent(row.share)}`]), told.bounds.map((row) => `${row.device} ${row.bound} ${percent(row.share)}`).join(", ")),
    plainTable(["", "bound by", "on", "nodes", "time", "share"], told.bounds.map((row, at) => [el("span", { class: "swatch", style: { background: paint(at) } }), row.bound, row.device, row.nodes.toLocaleString("en"), nsText(row.ns), percent(row.share)]), [3, 4, 5]),
    el("h3", {}, "Slowest nodes"),
    plainTable(["node", "time", "share", "bound by"], told.slowest.map((row) => [nodeLink(row.nid), nsText(row.ns), percent(row.share), row.bound]), [1, 2]),
    el("h3", {}, "By op"),
    plainTable(["op", "on", "nodes", "time", "share"], told.ops.map((row) => [row.op, row.device, row.nodes.toLocaleString("en"), nsText(row.ns), percent(row.share)]), [2, 3, 4]),
    el("h3", {}, "Queues"),
    plainTable(["queue", "events", "busy", "of the time"], told.queues.map((row) => [row.queue, row.events.toLocaleString("en"), nsText(row.busy_ns), percent(row.utilisation)]), [1, 2, 3]),
    told.links.length ? plainTable(["link", "copies", "busy", "of the time"], told.links.map((row) => [row.link, row.copies.toLocaleString("en"), nsText(row.busy_ns), percent(row.utilisation)]), [1, 2, 3]) : null,
    el("p", { class: "soft" }, `${short(told.throughput)} runs a second with ${plural(told.runs, "run")} submitted; critical path ${nsText(told.critical_ns)}; dispatch ${nsText(told.dispatch_ns)}; times are `
      + Object.entries(told.basis_shares).filter(([, share]) => share > 0).map(([name, share]) => `${name} ${percent(share)}`).join(", ") + "."));
}

function memoryCard() {
  const pools = plan().answers && plan().answers.memory;
  if (!pools) return null;
  if (!pools.length) return card("What fills the memory?", el("p", {}, "No device memory is used."));
  const fullest = pools.reduce((a, b) => (b.share > a.share ? b : a));
  const largest = fullest.holders[0];
  return card("What fills the memory?",
    el("p", { class: "say" }, `The fullest is ${fullest.device} ${fullest.memory}: ${bytesText(fullest.peak)} of ${bytesText(fullest.available)}${fullest.banks > 1 ? " a bank" : ""} (${percent(fullest.share)})`
      + (largest ? `; the largest there is ${nodeName(largest.nid)}, ${bytesText(largest.bytes)}.` : ".")),
    pools.flatMap((pool) => onePool(pool)));
}

function onePool(pool) {
  const whole = Math.max(pool.available, pool.peak, 1), part = (bytes) => bytes / whole;
  const parts = [[part(pool.parameters), paint(0), "parameters and inputs"], [part(pool.activations), paint(1), "activations"], [part(pool.gaps), paint(7), "gaps"], [part(pool.circular), paint(3), "circular buffers"]];
  return [
    el("h3", {}, `${pool.device} ${pool.memory}${pool.banks > 1 ? `, of each of ${pool.banks} banks` : ""} `, pool.fits ? null : el("span", { class: "bad" }, "does not fit")),
    meter(parts, `${percent(pool.share)} used`),
    el("p", {}, `peak ${bytesText(pool.peak)} of ${bytesText(pool.available)} (${percent(pool.share)}); live then: parameters and inputs ${bytesText(pool.parameters)}, activations ${bytesText(pool.activations)}; `
      + `gaps ${bytesText(pool.gaps)}; no plan in this order needs less than ${bytesText(pool.bound)}.`
      + (pool.circular ? ` Circular buffers open up to ${bytesText(pool.circular)} of a core while ${nodeName(pool.circular_nid)} runs.` : "")),
    pool.holders.length ? plainTable(["held at the peak", "bytes", "share"], pool.holders.map((row) => [nodeLink(row.nid), bytesText(row.bytes), percent(row.bytes / Math.max(pool.peak, 1))]), [1, 2]) : null,
  ];
}

function comparedCard() {
  const a = plan().accuracy;
  if (!a) return null;
  const nmse = (row) => (row.alone ? row.alone.nmse : -1), worst = [...a.nodes].sort((x, y) => nmse(y) - nmse(x)).slice(0, 8);
  return card("How exact is it?",
    el("p", { class: "say" }, `${a.ok ? "As" : "Differs from"} ${a.judge}: the worst output has an nmse of ${exact(a.worst)}, the bound is ${exact(a.bound)}.`),
    plainTable(["node, worst alone", "nmse alone", "added up", "PCC"], worst.map((row) => [row.nid === null ? row.name : nodeLink(row.nid, row.name), row.alone ? exact(row.alone.nmse) : "", row.added ? exact(row.added.nmse) : "", row.added && row.added.correlation !== null ? row.added.correlation.toFixed(6) : ""]), [1, 2, 3]));
}

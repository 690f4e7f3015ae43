"use strict";
// Points in planes of two logarithms: rooflines and errors; and the cores of boards.

/** A chart of points. axes: {x: [low, high, text], y: ...} of powers of ten; points: {x, y, nid, lines, hollow}; lines: [[x, y], ...] each. */
function chart(label, axes, points, lines, options = {}) {
  const log = Math.log10, top = 8, left = 62, px = (x) => (options.plainX ? x : log(x)), span = (axis) => Math.max(axis[1] - axis[0], 1e-9);
  const board = new Board({
    label, left, top, bounds: () => ({ x: axes.x[0], y: -axes.y[1], w: span(axes.x), h: span(axes.y) * 1.04 }),
    draw(ctx, b) {
      const soft = variable("--soft"), line = variable("--line"), colours = colouring();
      ctx.font = "11px system-ui, sans-serif"; ctx.strokeStyle = line; ctx.fillStyle = soft; ctx.lineWidth = 1;
      const bottom = b.height - 22;
      for (const at of ticks(b.fromX(left), b.fromX(b.width), b.width / 90).at) { const x = b.toX(at); ctx.beginPath(); ctx.moveTo(x, top); ctx.lineTo(x, bottom); ctx.stroke(); ctx.fillText(options.plainX ? short(at) : power(at), x - 8, bottom + 10); }
      for (const at of ticks(-b.fromY(bottom), -b.fromY(top), b.height / 50).at) { const y = b.toY(-at); ctx.beginPath(); ctx.moveTo(left, y); ctx.lineTo(b.width, y); ctx.stroke(); ctx.fillText(power(at), 6, y); }
      ctx.save(); ctx.beginPath(); ctx.rect(left, top, b.width, bottom - top); ctx.clip();
      for (const [at, one] of lines.entries()) {
        ctx.strokeStyle = ctx.fillStyle = one.colour || soft; ctx.lineWidth = 1.6; ctx.setLineDash(one.dash || []);
        ctx.beginPath(); one.points.forEach(([x, y], i) => (i ? ctx.lineTo(b.toX(px(x)), b.toY(-log(y))) : ctx.moveTo(b.toX(px(x)), b.toY(-log(y))))); ctx.stroke(); ctx.setLineDash([]);
        const end = one.points[one.points.length - 1];
        ctx.textAlign = "right"; ctx.fillText(one.name, Math.min(b.toX(px(end[0])), b.width) - 6, b.toY(-log(end[1])) - 8); ctx.textAlign = "left";
      }
      for (const point of points) {
        const x = b.toX(px(point.x)), y = b.toY(-log(point.y)), chosen = point.nid === state.nid && state.nid >= 0;
        if (x < left - 6 || x > b.width + 6 || y < -6 || y > b.height + 6) continue;
        ctx.beginPath(); ctx.arc(x, y, chosen ? 7 : point.size || 4, 0, 7);
        ctx.fillStyle = ctx.strokeStyle = point.nid === null ? soft : colours.of(point.nid); ctx.lineWidth = 1.4;
        if (point.hollow) ctx.stroke(); else { ctx.globalAlpha = 0.8; ctx.fill(); ctx.globalAlpha = 1; }
        if (chosen) { ctx.strokeStyle = variable("--accent"); ctx.lineWidth = 3; ctx.stroke(); }
      }
      ctx.restore();
      ctx.fillStyle = variable("--text"); ctx.textAlign = "right"; ctx.fillText(axes.x[2], b.width - 6, bottom - 8); ctx.textAlign = "left"; ctx.fillText(axes.y[2], left + 4, top + 6);
    },
    hit(b, x, y) {
      let best = null, near = 81;
      for (const point of points) { const d = (b.toX(px(point.x)) - x) ** 2 + (b.toY(-log(point.y)) - y) ** 2; if (d < near) { near = d; best = point; } }
      return best && best.nid !== null ? { nid: best.nid, lines: best.lines } : best && { lines: best.lines, act: () => {} };
    },
  });
  onChange(() => board.draw());
  return board;
}
const power = (at) => (at === Math.round(at) ? (Math.abs(at) < 4 ? short(10 ** at) : `1e${at}`) : Number((10 ** at).toPrecision(2)).toString().slice(0, 7));
function range(values, least, most) {
  const known = values.filter((value) => value > 0 && Number.isFinite(value)).map(Math.log10);
  if (!known.length) return [least, most];
  return [Math.floor(known.reduce((a, c) => Math.min(a, c)) * 2) / 2 - 0.25, Math.ceil(known.reduce((a, c) => Math.max(a, c)) * 2) / 2 + 0.25];
}

function rooflineView(section) {
  const draw = () => {
    const devices = plan().roofline, choose = el("select", { "aria-label": "device", onchange: () => one(devices[+choose.value]) }, devices.map((device, at) => el("option", { value: at }, device.device)));
    const room = el("div", { style: { display: "flex", flex: "1 1 auto", flexDirection: "column" } });
    const one = (device) => room.replaceChildren(el("p", { class: "soft" }, `${rooflineText(device)} Rates: ${device.source}.`), roofline(device).element);
    section.replaceChildren(el("div", { class: "bar" }, choose, colourBar()), room);
    if (!devices.length) { room.append(el("p", {}, "No op of this plan does arithmetic.")); return; }
    const busiest = devices.reduce((best, device, at) => (device.points.nid.length > devices[best].points.nid.length ? at : best), 0);
    choose.value = busiest;
    one(devices[busiest]);
  };
  onChange((what) => { if (what === "plan") draw(); });
  draw();
  return {};
}
function rooflineText(device) {
  const p = device.points, ridge = device.gb_per_s ? device.roofs[0][1] / device.gb_per_s : null;
  const below = ridge === null ? null : p.nid.filter((_, at) => p.flops[at] / p.bytes[at] < ridge).length;
  return `${plural(p.nid.length, "op")}; ` + (ridge === null ? "the board's file has no rate of its memory." : `${below} have fewer than ${short(ridge)} operations a byte: the memory bounds them at best, not arithmetic.`);
}
function roofline(device) {
  const p = device.points, points = [], labels = Object.keys(p.ns);
  for (const [which, label] of labels.entries()) {
    p.nid.forEach((nid, at) => {
      const ns = p.ns[label][at];
      if (ns > 0) points.push({ x: p.flops[at] / p.bytes[at], y: p.flops[at] / ns, nid, hollow: which > 0, lines: [nodeName(nid), `${textOf(nodes().op[nid])}, ${label} ${nsText(ns)}`, `${short(p.flops[at] / p.bytes[at])} operations a byte, ${short(p.flops[at] / ns)} GFLOP/s`] });
    });
  }
  const ridges = device.gb_per_s ? device.roofs.map(([, rate]) => rate / device.gb_per_s) : [];
  const [low, high] = range([...points.map((point) => point.x), ...ridges], -2, 3), roofs = device.roofs.map(([name, rate]) => roof(name, rate, device.gb_per_s, low, high));
  const y = range([...points.map((point) => point.y), ...device.roofs.map(([, rate]) => rate)], 0, 5);
  return chart(`roofline of ${device.device}`, { x: [low, high, "operations a byte"], y: [y[0], y[1], "GFLOP/s"] }, points, roofs);
}
function roof(name, rate, gb, low, high) {
  const ends = [10 ** low, 10 ** high], points = gb ? [[ends[0], Math.min(ends[0] * gb, rate)], ...(rate / gb > ends[0] && rate / gb < ends[1] ? [[rate / gb, rate]] : []), [ends[1], Math.min(ends[1] * gb, rate)]] : [[ends[0], rate], [ends[1], rate]];
  return { name: `${name} ${short(rate)}`, points };
}

// ---------------------------------------------------------------- accuracy

function accuracyView(section) {
  const draw = () => {
    const a = plan().accuracy;
    if (!a) { section.replaceChildren(el("p", {}, "Nothing was compared: run --compare --html measures every node.")); return; }
    const points = [], tiny = 1e-20;
    a.nodes.forEach((row, at) => {
      for (const [hollow, side, name] of [[false, row.alone, "alone"], [true, row.added, "added up"]]) {
        if (side) points.push({ x: at, y: Math.max(side.nmse ?? 1, tiny), nid: row.nid, hollow, lines: [row.name, `${row.op} on ${row.device}, ${name}`, `nmse ${exact(side.nmse)}, PCC ${side.correlation}`, `max abs ${exact(side.max_abs)}, ${`${short(side.max_ulp)} ULP of bf16`}`] });
      }
    });
    const bounds = [["bound of outputs", a.bound], ["bound of a node alone", a.alone_bound]].filter(([, value]) => value > 0).map(([name, value]) => ({ name: `${name} ${exact(value)}`, points: [[0, value], [Math.max(a.nodes.length - 1, 1), value]], colour: variable("--mark"), dash: [6, 4] }));
    const y = range([...points.map((point) => point.y), a.bound, a.alone_bound], -8, 0);
    const board = chart("error of each node", { x: [-0.5, Math.max(a.nodes.length - 0.5, 1), "nodes in their order"], y: [y[0], y[1], "nmse"] }, points, bounds, { plainX: true });
    section.replaceChildren(el("p", { class: "say" }, `${a.ok ? "As" : "Differs from"} ${a.judge}: worst output ${exact(a.worst)}, bound ${exact(a.bound)}. Filled: each node alone, on right inputs; hollow: errors added up.`),
      el("div", { class: "bar" }, colourBar()), board.element, accuracyTable(a));
  };
  onChange((what) => { if (what === "plan") draw(); });
  draw();
  return {};
}
function accuracyTable(a) {
  const side = (name, key) => (row) => (row[name] ? row[name][key] : null);
  const worst = (row) => { const s = row.added || row.alone; return s && s.worst && s.worst.length ? `[${elementText(s.worst[0])}] ${valueText(s.worst[0].got)} for ${valueText(s.worst[0].wanted)}` : ""; };
  return dataTable("accuracy", [
    { name: "node", of: (row) => row.name, wide: 3 }, { name: "op", of: (row) => row.op }, { name: "device", of: (row) => row.device },
    { name: "nmse alone", of: side("alone", "nmse"), text: exact }, { name: "nmse added up", of: side("added", "nmse"), text: exact },
    { name: "PCC alone", of: side("alone", "correlation") }, { name: "PCC", of: side("added", "correlation") },
    { name: "ULP alone", of: side("alone", "max_ulp"), text: short }, { name: "max abs", of: side("added", "max_abs"), text: exact }, { name: "worst element", of: worst, wide: 2 },
  ], a.nodes, (row) => row.nid).element;
}

// ---------------------------------------------------------------- cores of boards

function coresView(section) {
  const draw = () => {
    if (!plan().cores.length) { section.replaceChildren(el("p", {}, "No device of this plan has cores that run ops.")); return; }
    section.replaceChildren(...plan().cores.flatMap((device) => oneDevice(device)));
  };
  onChange((what) => { if (what === "plan" || what === "theme") draw(); });
  draw();
  return {};
}
function oneDevice(device) {
  const [rows, columns] = device.grid;
  if (!device.epochs.length) {
    const ops = [...device.ops].sort((a, b) => (nodes().ns[b[0]] || 0) - (nodes().ns[a[0]] || 0)), room = el("div", {});
    const show = (nid) => {
      const op = ops.find((one) => one[0] === nid) || ops[0];
      const [top, left, bottom, right] = op[1] || [0, 0, rows - 1, columns - 1], inside = (at) => Math.floor(at / columns) >= top && Math.floor(at / columns) <= bottom && at % columns >= left && at % columns <= right;
      room.replaceChildren(el("p", {}, `${nodeName(op[0])}: ${percent(op[2])} of all multipliers busy for ${nsText(nodes().ns[op[0]])}, on ${op[1] ? `cores ${coreText(op[1])}` : "all cores"}.`), gridBoard(rows, columns, (at) => (inside(at) ? { share: op[2], text: nodeName(op[0]), nid: op[0] } : null), null, null));
    };
    onChange((what) => { if (what === "nid" && room.isConnected) show(state.nid); });
    show(state.nid);
    return [el("h2", {}, `${device.device}: ${rows}x${columns} cores, one op at a time`), room,
      plainTable(["op", "busy multipliers", "time", "cores"], ops.slice(0, 40).map(([nid, at, share]) => [nodeLink(nid), percent(share), nsText(nodes().ns[nid]), at ? coreText(at) : "all"]), [1, 2])];
  }
  const drawings = device.epochs.map((epoch, number) => {
    const of = (at) => epoch.ops.find((op) => op.at[0] <= Math.floor(at / columns) && Math.floor(at / columns) <= op.at[2] && op.at[1] <= at % columns && at % columns <= op.at[3]);
    const said = (op) => `${op.name}: ${op.cycles.toLocaleString("en")} of ${epoch.cycles.toLocaleString("en")} cycles, ${bytesText(op.l1)} of L1 a core`;
    const cell = (share) => (at) => { const op = of(at); return op ? { share: share(op), text: said(op), nid: op.nid } : null; };
    return el("div", { class: "card" }, el("h3", {}, `epoch ${number}: ${epoch.cycles.toLocaleString("en")} cycles, ${percent(epoch.utilisation)} of all cores busy`),
      el("div", { class: "cards" }, el("div", {}, "cycles", gridBoard(rows, columns, cell((op) => op.cycles / Math.max(epoch.cycles, 1)), null, null)), el("div", {}, "L1", gridBoard(rows, columns, cell((op) => op.l1 / Math.max(device.l1, 1)), null, null))));
  });
  return [el("h2", {}, `${device.device}, policy ${device.policy}: ${plural(device.epochs.length, "epoch")}`), ...drawings];
}

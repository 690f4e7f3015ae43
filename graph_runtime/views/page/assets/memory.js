"use strict";
// Memory: addresses by time of one pool; beside it what lives at a time, cores of L1, bytes of banks.

const POOL = { left: 74, top: 54 };
const KINDS = ["activation", "parameter", "output"];

class PoolDrawing {
  constructor(pool, core) {
    const v = pool.values, [row, column] = core === null || !pool.grid ? [null, null] : [Math.floor(core / pool.grid[1]), core % pool.grid[1]];
    this.pool = pool;
    this.rows = [...v.nid.keys()].filter((at) => row === null || !v.cores[at] || (v.cores[at][0] <= row && row <= v.cores[at][2] && v.cores[at][1] <= column && column <= v.cores[at][3]));
    this.over = Math.max(1, plan().answers.time.latency_ns, this.rows.reduce((most, at) => Math.max(most, v.end[at]), 0));
    const circular = pool.circular ? Math.max(0, ...pool.circular.bytes) : 0;
    this.high = Math.max(pool.peak > 0.4 * pool.available ? Math.max(pool.available, pool.peak) : pool.peak, circular ? pool.room : 0, pool.bound, 1);
    this.curve = this.liveCurve();
  }

  /** [[ns, bytes from there on]]; storages that several values share count once. */
  liveCurve() {
    const v = this.pool.values, changes = [], users = new Map(), found = [];
    for (const at of this.rows) changes.push([v.begin[at], 1, at], [Math.max(v.end[at], v.begin[at] + 1), -1, at]);
    changes.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    let live = 0;
    changes.forEach(([ns, change, at], i) => {
      const before = users.get(v.sid[at]) || 0;
      users.set(v.sid[at], before + change);
      live += v.extent[at] * ((before + change > 0) - (before > 0));
      if (i + 1 === changes.length || changes[i + 1][0] !== ns) found.push([ns, live]);
    });
    return found;
  }

  /** What lives at a time: rows, bytes, the highest address in use, the largest hole below it. */
  at(ns) {
    const v = this.pool.values, rows = this.rows.filter((at) => v.begin[at] <= ns && ns < Math.max(v.end[at], v.begin[at] + 1));
    const once = [...new Map(rows.map((at) => [v.sid[at], at])).values()].sort((a, b) => v.offset[a] - v.offset[b]);
    let bytes = 0, top = 0, hole = 0;
    for (const at of once) { bytes += v.extent[at]; hole = Math.max(hole, v.offset[at] - top); top = Math.max(top, v.offset[at] + v.extent[at]); }
    const c = this.pool.circular, open = c ? [...c.nid.keys()].filter((at) => c.begin[at] <= ns && ns < c.end[at]) : [];
    return { rows: once.sort((a, b) => v.extent[b] - v.extent[a]), bytes, top, hole, open };
  }
}

function memoryView(section) {
  const pools = () => plan().pools;
  let which = 0, core = null, drawing = null;
  const choose = el("select", { "aria-label": "memory", onchange: () => { which = +choose.value; core = null; load(); } });
  const board = new Board({
    label: "addresses of a memory by time; what is alive is listed beside it", left: POOL.left, top: POOL.top,
    bounds: () => (drawing ? { x: 0, y: 0, w: drawing.over, h: drawing.high * 1.04 } : { x: 0, y: 0, w: 1, h: 1 }),
    draw: (ctx, b) => drawing && drawPool(ctx, b, drawing),
    hit: (b, x, y) => drawing && hitPool(b, x, y, drawing),
    empty: (b, x) => { if (x > POOL.left) set("time", Math.max(0, b.fromX(x))); },
  });
  const beside = el("div", { class: "scroll", id: "alive", tabindex: 0, role: "region", "aria-label": "what is alive" });
  const problem = el("p", { class: "problem", hidden: true });
  function load() {
    choose.replaceChildren(...pools().map((pool, at) => el("option", { value: at }, `${pool.device} ${pool.memory}`)));
    which = Math.min(which, Math.max(pools().length - 1, 0));
    choose.value = which;
    drawing = pools().length ? new PoolDrawing(pools()[which], core) : null;
    problem.hidden = !plan().problem;
    problem.textContent = plan().problem ? `Does not fit: ${plan().problem}` : "";
    board.fit();
    tell();
  }
  function tell() {
    if (!drawing) { beside.replaceChildren(el("p", {}, "No device memory is used.")); return; }
    const ns = state.time === null ? drawing.pool.most_live_ns : state.time;
    beside.replaceChildren(...aliveAt(drawing, ns, core, (picked) => { core = picked; drawing = new PoolDrawing(pools()[which], core); board.draw(); tell(); }));
  }
  onChange((what) => {
    if (what === "plan") { core = null; load(); }
    if (what === "time" || what === "theme") tell();
    board.draw();
  });
  const fullest = () => pools().reduce((best, pool, at) => (pool.peak / pool.available > pools()[best].peak / pools()[best].available ? at : best), 0);
  which = pools().length ? fullest() : 0;
  section.append(problem, el("div", { class: "bar" }, choose, boardBar(board), el("button", { onclick: () => set("time", null) }, "at the peak"), el("span", { class: "key" }, KINDS.map((kind, at) => el("span", {}, el("span", { class: "swatch", style: { background: paint([1, 0, 2][at]) } }), kind)), el("span", {}, el("span", { class: "swatch", style: { background: paint(3) } }), "circular buffers"))),
    el("div", { class: "pair" }, board.element, el("div", {}, beside)));
  load();
  return { board, get drawing() { return drawing; } };
}

function aliveAt(drawing, ns, core, pick) {
  const pool = drawing.pool, v = pool.values, now = drawing.at(ns), holes = now.top - now.bytes;
  const shown = now.rows.slice(0, 60).map((at) => [nodeLink(v.nid[at]), bytesText(v.extent[at]), KINDS[v.kind[at]]]);
  return [
    el("p", {}, el("strong", {}, `At ${nsText(ns)}${ns === pool.most_live_ns ? ", where most is live" : ""}${core === null ? "" : `, core ${core}`}: `),
      `${plural(now.rows.length, "buffer")}, ${bytesText(now.bytes)}${pool.banks > 1 ? " of each bank" : ""}; the highest address in use is ${bytesText(now.top)}, gaps below it ${bytesText(holes)} (${percent(holes / Math.max(now.top, 1))}), the largest ${bytesText(now.hole)}.`),
    el("p", { class: "soft" }, `The plan takes ${bytesText(pool.peak)} of ${bytesText(pool.available)} (${pool.status}); no plan in this order needs less than ${bytesText(pool.bound)}.`),
    ...now.open.map((at) => el("p", {}, "Circular buffers of ", nodeLink(pool.circular.nid[at]), `: ${bytesText(pool.circular.bytes[at])} of each core.`)),
    ...(pool.grid ? coreGrid(pool, drawing, ns, core, pick) : []),
    plainTable(["alive", "bytes", ""], shown, [1]),
    now.rows.length > 60 ? el("p", { class: "soft" }, `and ${now.rows.length - 60} more`) : null,
    ...bankBars(pool),
  ].filter(Boolean);
}

/** Cores of L1, darker where more of it is taken at a time; a click shows the addresses of that core alone. */
function coreGrid(pool, drawing, ns, core, pick) {
  const v = pool.values, [rows, columns] = pool.grid, taken = new Float64Array(rows * columns), seen = new Set();
  for (let at = 0; at < v.nid.length; at++) {
    if (!(v.begin[at] <= ns && ns < Math.max(v.end[at], v.begin[at] + 1)) || seen.has(v.sid[at])) continue;
    seen.add(v.sid[at]);
    const [top, left, bottom, right] = v.cores[at] || [0, 0, rows - 1, columns - 1];
    for (let r = top; r <= bottom; r++) for (let c = left; c <= right; c++) taken[r * columns + c] += v.extent[at];
  }
  const c = pool.circular, extra = c ? Math.max(0, ...[...c.nid.keys()].filter((at) => c.begin[at] <= ns && ns < c.end[at]).map((at) => c.bytes[at])) : 0;
  const room = Math.max(pool.room, pool.available, 1);
  const board = gridBoard(rows, columns, (at) => ({ share: (taken[at] + extra) / room, text: `core ${Math.floor(at / columns)},${at % columns}: ${bytesText(taken[at])} of tensors${extra ? `, ${bytesText(extra)} of circular buffers` : ""} of ${bytesText(room)}` }), core, pick);
  return [el("h3", {}, "Cores", core === null ? "" : el("button", { onclick: () => pick(null) }, "all cores")), board];
}

function gridBoard(rows, columns, cell, chosen, pick) {
  const board = new Board({
    label: `${rows} by ${columns} cores`, short: true, same: true, most: 40,
    bounds: () => ({ x: 0, y: 0, w: columns, h: rows }),
    draw(ctx, b) {
      for (let at = 0; at < rows * columns; at++) {
        const x = b.toX(at % columns), y = b.toY(Math.floor(at / columns)), found = cell(at);
        ctx.fillStyle = found ? found.colour || heat(found.share) : variable("--line");
        ctx.fillRect(x + 0.5, y + 0.5, b.kx - 1, b.ky - 1);
        if (at === chosen || (found && found.nid === state.nid && state.nid >= 0)) { ctx.strokeStyle = variable("--accent"); ctx.lineWidth = 2; ctx.strokeRect(x + 1, y + 1, b.kx - 2, b.ky - 2); }
      }
    },
    hit(b, x, y) {
      const column = Math.floor(b.fromX(x)), row = Math.floor(b.fromY(y)), at = row * columns + column;
      if (column < 0 || row < 0 || column >= columns || row >= rows) return null;
      const found = cell(at);
      return found && { lines: [found.text], nid: found.nid, act: pick ? () => pick(at) : undefined };
    },
  });
  return board.element;
}

/** Bytes that one run reads of and writes to each bank. */
function bankBars(pool) {
  if (!pool.traffic) return [];
  const sums = pool.traffic.map(([read, written]) => read + written), most = Math.max(1, ...sums), least = Math.min(...sums);
  const board = new Board({
    label: `bytes of each of ${pool.banks} banks`, short: true, zoomY: false, left: 4, top: 4,
    bounds: () => ({ x: 0, y: 0, w: pool.traffic.length, h: 1 }),
    draw(ctx, b) {
      const high = b.height - 10;
      pool.traffic.forEach(([read, written], at) => {
        const x = b.toX(at), w = Math.max(b.kx * 0.85, 0.7), bottom = b.height - 4;
        ctx.fillStyle = paint(1); ctx.fillRect(x, bottom - high * written / most, w, high * written / most);
        ctx.fillStyle = paint(0); ctx.fillRect(x, bottom - high * (read + written) / most, w, high * read / most);
      });
    },
    hit(b, x) {
      const at = Math.floor(b.fromX(x));
      return at >= 0 && at < pool.traffic.length ? { lines: [`bank ${at}: ${bytesText(pool.traffic[at][0])} read, ${bytesText(pool.traffic[at][1])} written`], act: () => {} } : null;
    },
  });
  return [el("h3", {}, "Bytes of each bank in one run"), el("p", { class: "soft" }, `read (blue) and written (orange); the busiest has ${bytesText(most)}, the least busy ${bytesText(least)}`), board.element];
}

function drawPool(ctx, b, drawing) {
  const pool = drawing.pool, v = pool.values, line = variable("--line"), soft = variable("--soft"), mark = variable("--mark"), accent = variable("--accent"), panel = variable("--panel"), back = variable("--back");
  const y = (address) => b.toY(address);
  ctx.save();
  ctx.beginPath(); ctx.rect(POOL.left, POOL.top, b.width, b.height); ctx.clip();
  for (const at of drawing.rows) {
    const x = b.toX(v.begin[at]), w = Math.max((v.end[at] - v.begin[at]) * b.kx, 0.8), top = y(v.offset[at]), h = Math.max(v.extent[at] * b.ky, 0.5);
    if (x > b.width || x + w < POOL.left || top > b.height || top + h < POOL.top) continue;
    ctx.fillStyle = paint([1, 0, 2][v.kind[at]]);
    ctx.globalAlpha = 0.55 + 0.35 * ((v.sid[at] * 7) % 5) / 4;
    ctx.fillRect(x, top, w, h);
    ctx.globalAlpha = 1;
    if (h > 3 && w > 3) { ctx.strokeStyle = back; ctx.lineWidth = 0.7; ctx.strokeRect(x, top, w, h); }
    if (v.nid[at] === state.nid) { ctx.strokeStyle = accent; ctx.lineWidth = 3; ctx.strokeRect(x, top, Math.max(w, 2), Math.max(h, 2)); }
    if (h > 14 && w > 50) { ctx.fillStyle = dark() ? "#10141a" : "#fff"; ctx.font = "11px system-ui, sans-serif"; const left = Math.max(x, POOL.left); ctx.fillText(fitText(ctx, nodeName(v.nid[at]), Math.min(x + w, b.width) - left - 8), left + 4, Math.min(Math.max(top, POOL.top) + 9, top + h - 6)); }
  }
  const c = pool.circular;
  if (c) {
    for (let at = 0; at < c.nid.length; at++) {
      ctx.fillStyle = paint(3); ctx.globalAlpha = 0.75;
      ctx.fillRect(b.toX(c.begin[at]), y(pool.room - c.bytes[at]), Math.max((c.end[at] - c.begin[at]) * b.kx, 0.8), c.bytes[at] * b.ky);
      ctx.globalAlpha = 1;
      if (c.nid[at] === state.nid) { ctx.strokeStyle = accent; ctx.lineWidth = 3; ctx.strokeRect(b.toX(c.begin[at]), y(pool.room - c.bytes[at]), Math.max((c.end[at] - c.begin[at]) * b.kx, 2), c.bytes[at] * b.ky); }
    }
  }
  level(ctx, b, y(pool.available), mark, `available ${bytesText(pool.available)}`, [6, 3]);
  level(ctx, b, y(pool.peak), soft, `peak ${bytesText(pool.peak)}`, []);
  if (pool.bound !== pool.peak) level(ctx, b, y(pool.bound), accent, `least ${bytesText(pool.bound)}`, [2, 3]);
  const ns = state.time === null ? pool.most_live_ns : state.time;
  ctx.strokeStyle = mark; ctx.lineWidth = 1; ctx.beginPath(); ctx.moveTo(b.toX(ns), POOL.top); ctx.lineTo(b.toX(ns), b.height); ctx.stroke();
  ctx.restore();
  poolMargins(ctx, b, drawing, { line, soft, mark, panel });
}

function level(ctx, b, y, colour, text, dash) {
  ctx.strokeStyle = ctx.fillStyle = colour; ctx.lineWidth = 1.2; ctx.setLineDash(dash);
  ctx.beginPath(); ctx.moveTo(POOL.left, y); ctx.lineTo(b.width, y); ctx.stroke(); ctx.setLineDash([]);
  ctx.font = "11px system-ui, sans-serif"; ctx.textAlign = "right"; ctx.fillText(text, b.width - 6, y - 7); ctx.textAlign = "left";
}

/** The addresses at the left, times and the curve of live bytes above. */
function poolMargins(ctx, b, drawing, tone) {
  ctx.fillStyle = tone.panel;
  ctx.fillRect(0, 0, b.width, POOL.top); ctx.fillRect(0, POOL.top, POOL.left, b.height);
  ctx.font = "11px system-ui, sans-serif"; ctx.fillStyle = tone.soft;
  const rows = ticks(Math.max(b.fromY(POOL.top), 0), b.fromY(b.height), b.height / 60, 2), times = ticks(Math.max(b.fromX(POOL.left), 0), b.fromX(b.width), (b.width - POOL.left) / 110);
  for (const at of rows.at) { ctx.fillText(bytesText(at), 6, b.toY(at)); }
  for (const at of times.at) if (b.toX(at) > POOL.left) ctx.fillText(tickTime(at, times.step), b.toX(at) + 2, 9);
  ctx.fillText("live", 6, 34);
  const most = Math.max(1, drawing.pool.most_live), y = (bytes) => POOL.top - 3 - (POOL.top - 20) * bytes / most;
  ctx.save();
  ctx.beginPath(); ctx.rect(POOL.left, 0, b.width, POOL.top); ctx.clip();
  ctx.beginPath(); ctx.moveTo(b.toX(0), POOL.top);
  let before = 0;
  for (const [ns, bytes] of drawing.curve) { ctx.lineTo(b.toX(ns), y(before)); ctx.lineTo(b.toX(ns), y(bytes)); before = bytes; }
  ctx.lineTo(b.toX(drawing.over), y(before)); ctx.lineTo(b.toX(drawing.over), POOL.top); ctx.closePath();
  ctx.globalAlpha = 0.5; ctx.fillStyle = paint(1); ctx.fill(); ctx.globalAlpha = 1;
  ctx.restore();
}

function hitPool(b, x, y, drawing) {
  if (x < POOL.left || y < POOL.top) return null;
  const pool = drawing.pool, v = pool.values, c = pool.circular, ns = b.fromX(x), address = b.fromY(y), near = 2 / b.kx;
  if (c && address > pool.peak) {
    for (let at = 0; at < c.nid.length; at++) if (c.begin[at] - near <= ns && ns <= c.end[at] + near && address >= pool.room - c.bytes[at] && address <= pool.room) return { nid: c.nid[at], lines: [nodeName(c.nid[at]), `circular buffers: ${bytesText(c.bytes[at])} of each core`] };
  }
  for (let i = drawing.rows.length - 1; i >= 0; i--) {
    const at = drawing.rows[i];
    if (ns < v.begin[at] - near || ns > v.end[at] + near || address < v.offset[at] || address >= v.offset[at] + v.extent[at]) continue;
    return { nid: v.nid[at], lines: [nodeName(v.nid[at]), `${KINDS[v.kind[at]]}, storage ${v.sid[at]}`, `${v.offset[at].toLocaleString("en")} + ${v.extent[at].toLocaleString("en")} B${pool.banks > 1 ? " a bank" : ""}`, `alive ${nsText(v.begin[at])} to ${nsText(v.end[at])}`, v.cores[at] ? `cores ${coreText(v.cores[at])}` : null] };
  }
  return null;
}

"use strict";
// Time: a lane a queue, of each timeline; zoom to the nanosecond, flows between lanes, the critical path.

const LANE = { h: 24, least: 24, most: 46, left: 150, top: 22, gap: 10 };

/** Lanes of all timelines of the plan, with the events of each in order of their begin. */
function lanesOf() {
  const lanes = [];
  let y = 0;
  LANE.h = plan().timelines.reduce((sum, line) => sum + line.queues.length, 0) > 10 ? LANE.least : LANE.most;
  for (const [which, line] of plan().timelines.entries()) {
    const e = line.events, rows = new Map();
    for (let queue = 0; queue < line.queues.length; queue++) rows.set(queue * 4096, { which, queue, slot: 0, events: [] });
    for (let at = 0; at < e.nid.length; at++) {
      const key = e.queue[at] * 4096 + Math.min(e.slot[at], 4095);
      if (!rows.has(key)) rows.set(key, { which, queue: e.queue[at], slot: e.slot[at], events: [] });
      rows.get(key).events.push(at);
    }
    for (const [, row] of [...rows].sort((a, b) => a[0] - b[0])) {
      row.events.sort((a, b) => e.start[a] - e.start[b]);
      row.y = y;
      y += LANE.h;
      lanes.push(row);
    }
    y += LANE.gap;
  }
  return { lanes, height: y };
}

class TimeDrawing {
  constructor() {
    Object.assign(this, lanesOf());
    this.over = 1;
    this.laneOf = plan().timelines.map((line) => new Array(line.events.nid.length));
    this.byNode = plan().timelines.map(() => new Map());
    this.critical = plan().timelines.map((line) => new Set(line.critical));
    this.flows = plan().timelines.map((line) => { const of = new Map(); for (const flow of line.flows) for (const end of flow.slice(0, 2)) { if (!of.has(end)) of.set(end, []); of.get(end).push(flow); } return of; });
    for (const lane of this.lanes) {
      const e = plan().timelines[lane.which].events;
      for (const at of lane.events) {
        this.laneOf[lane.which][at] = lane;
        this.over = Math.max(this.over, e.start[at] + e.ns[at]);
        const same = this.byNode[lane.which];
        if (!same.has(e.nid[at])) same.set(e.nid[at], []);
        same.get(e.nid[at]).push(at);
      }
    }
  }

  /** The first event of a lane that ends after a time: events of a lane do not overlap. */
  from(lane, ns) {
    const e = plan().timelines[lane.which].events;
    let low = 0, high = lane.events.length;
    while (low < high) { const middle = (low + high) >> 1, at = lane.events[middle]; if (e.start[at] + e.ns[at] < ns) low = middle + 1; else high = middle; }
    return low;
  }
}

function timelineView(section) {
  const on = { critical: true, flows: false };
  let drawing = new TimeDrawing(), colours = colouring();
  const board = new Board({
    label: "timeline of the queues; the table of events has the same as text", zoomY: false, left: LANE.left, top: LANE.top, most: 100,
    bounds: () => ({ x: 0, y: 0, w: drawing.over, h: drawing.height }),
    draw: (ctx, b) => drawTimeline(ctx, b, drawing, colours, on),
    hit: (b, x, y) => hitTimeline(b, x, y, drawing),
    empty: (b, x) => { select(-1); set("time", Math.max(0, b.fromX(x))); },
    key: (event) => (event.key === "c" ? press("critical") : event.key === "w" ? press("flows") : false),
  });
  const buttons = {};
  const press = (what) => { on[what] = !on[what]; buttons[what].setAttribute("aria-pressed", on[what]); board.draw(); return true; };
  const toggle = (what, text, title) => (buttons[what] = el("button", { "aria-pressed": String(on[what]), title, onclick: () => press(what) }, text));
  const said = el("span", { class: "soft", id: "timeline-span" });
  const draw = board.view.draw;
  board.view.draw = (ctx, b) => { draw(ctx, b); said.textContent = `${nsText(Math.max(b.fromX(b.width) - b.fromX(b.view.left), 0))} in sight of ${nsText(drawing.over)}`; };
  /** Goes to the selected node's first event, where that is not in sight or too small to see. */
  function reveal() {
    for (const [which, same] of drawing.byNode.entries()) {
      const at = (same.get(state.nid) || [])[0];
      if (at === undefined) continue;
      const e = plan().timelines[which].events, x = board.toX(e.start[at]), w = e.ns[at] * board.kx;
      if (x + w < LANE.left || x > board.width || w < 3) {
        const span = Math.min(Math.max(e.ns[at] * 6, drawing.over / 2000), drawing.over);
        board.kx = (board.width - LANE.left) / span;
        board.ox = e.start[at] + e.ns[at] / 2 - span / 2;
        board.moved = true;
      }
      board.draw();
      return;
    }
  }
  onChange((what) => {
    if (what === "plan") { drawing = new TimeDrawing(); board.fit(); }
    colours = colouring();
    if (what === "nid" && state.nid >= 0 && !section.hidden) reveal();
    board.draw();
  });
  section.append(el("div", { class: "bar" }, boardBar(board), toggle("critical", "critical path", "the longest chain of events that need each other (c)"), toggle("flows", "flows and waits", "what each event waited for on another queue (w)"), colourBar(), said), board.element);
  return { board, reveal, get drawing() { return drawing; } };
}

function drawTimeline(ctx, b, drawing, colours, on) {
  const line = variable("--line"), soft = variable("--soft"), text = variable("--text"), mark = variable("--mark"), accent = variable("--accent"), back = variable("--back"), panel = variable("--panel");
  const from = b.fromX(LANE.left), to = b.fromX(b.width), marks = ticks(Math.max(from, 0), Math.min(to, drawing.over), (b.width - LANE.left) / 110);
  ctx.save();
  ctx.beginPath(); ctx.rect(LANE.left, LANE.top, b.width, b.height); ctx.clip();
  ctx.strokeStyle = line; ctx.lineWidth = 1;
  for (const at of marks.at) { ctx.beginPath(); ctx.moveTo(b.toX(at), LANE.top); ctx.lineTo(b.toX(at), b.height); ctx.stroke(); }
  for (const lane of drawing.lanes) {
    const y = b.toY(lane.y);
    if (y > b.height || y + LANE.h < LANE.top) continue;
    drawLane(ctx, b, drawing, lane, { from, to, y, colours, on, line, soft, text, accent, back });
  }
  drawFlows(ctx, b, drawing, on, { from, to, mark, soft, accent });
  if (state.time !== null) { ctx.strokeStyle = mark; ctx.beginPath(); ctx.moveTo(b.toX(state.time), LANE.top); ctx.lineTo(b.toX(state.time), b.height); ctx.stroke(); }
  ctx.restore();
  ctx.fillStyle = panel;
  ctx.fillRect(0, 0, b.width, LANE.top); ctx.fillRect(0, LANE.top, LANE.left, b.height);
  ctx.fillStyle = soft; ctx.font = "11px system-ui, sans-serif";
  for (const at of marks.at) if (b.toX(at) >= LANE.left) ctx.fillText(tickTime(at, marks.step), b.toX(at) + 3, LANE.top / 2);
  for (const lane of drawing.lanes) {
    const y = b.toY(lane.y), timelines = plan().timelines;
    if (y + LANE.h < LANE.top || y > b.height || y < LANE.top - LANE.h / 2) continue;
    const name = (timelines.length > 1 ? `${timelines[lane.which].label}: ` : "") + (lane.slot ? `beside ${lane.slot}` : timelines[lane.which].queues[lane.queue]);
    ctx.fillStyle = text; ctx.fillText(fitText(ctx, name, LANE.left - 10), 6, y + LANE.h / 2);
  }
}

/** A lane's events in sight. Those narrower than a pixel are drawn as one. */
function drawLane(ctx, b, drawing, lane, how) {
  const line = plan().timelines[lane.which], e = line.events, critical = drawing.critical[lane.which], top = how.y + 3, high = LANE.h - 6;
  ctx.strokeStyle = how.line; ctx.beginPath(); ctx.moveTo(LANE.left, how.y + LANE.h); ctx.lineTo(b.width, how.y + LANE.h); ctx.stroke();
  let drawn = -Infinity;
  for (let i = drawing.from(lane, how.from); i < lane.events.length; i++) {
    const at = lane.events[i], start = e.start[at];
    if (start > how.to) break;
    const x = Math.max(b.toX(start), LANE.left - 2), right = Math.min(b.toX(start + e.ns[at]), b.width + 2), w = Math.max(right - x, 0.7), chosen = e.nid[at] === state.nid;
    if (right < drawn + 0.5 && !chosen) continue;
    drawn = x + w;
    ctx.fillStyle = how.colours.of(e.nid[at]);
    ctx.globalAlpha = how.on.critical && critical.size && !critical.has(at) && e.run[at] === 0 && !chosen ? 0.45 : 1;
    ctx.fillRect(x, top, w, high);
    if (e.dispatch[at] && w > 3) { ctx.fillStyle = how.soft; ctx.globalAlpha *= 0.6; ctx.fillRect(x, top, Math.min(e.dispatch[at] * b.kx, w), 3); }
    ctx.globalAlpha = 1;
    if (w > 3) { ctx.strokeStyle = how.back; ctx.lineWidth = 0.6; ctx.strokeRect(x, top, w, high); }
    if (how.on.critical && critical.has(at)) { ctx.fillStyle = how.text; ctx.fillRect(x, top + high - 2, w, 2); }
    if (chosen) { ctx.strokeStyle = how.accent; ctx.lineWidth = 2.5; ctx.strokeRect(x - 1, top - 1, Math.max(w, 2) + 2, high + 2); }
    if (w > 34) { ctx.fillStyle = dark() ? "#10141a" : "#fff"; if (state.colour === "time" || state.colour === "memory" || state.colour === "error") ctx.fillStyle = dark() ? "#fff" : "#111"; ctx.font = "11px system-ui, sans-serif"; ctx.fillText(fitText(ctx, nodeName(e.nid[at]), w - 8), x + 4, top + high / 2); }
  }
}

/** Flows of the selected node; of all events in sight where asked for, and not too many to see anything. */
function drawFlows(ctx, b, drawing, on, tone) {
  for (const [which, line] of plan().timelines.entries()) {
    const e = line.events, mine = drawing.byNode[which].get(state.nid) || [];
    if (on.flows) {
      const seen = line.flows.filter(([, to]) => e.start[to] >= tone.from && e.start[to] <= tone.to);
      if (seen.length <= 4000) for (const flow of seen) arrow(ctx, b, drawing, which, flow, tone, 0.5);
    }
    for (const at of mine) for (const flow of drawing.flows[which].get(at) || []) arrow(ctx, b, drawing, which, flow, tone, 1);
  }
}
function arrow(ctx, b, drawing, which, [from, to, kind], tone, alpha) {
  const e = plan().timelines[which].events, x1 = b.toX(e.start[from] + e.ns[from]), x2 = b.toX(e.start[to]);
  const y1 = b.toY(drawing.laneOf[which][from].y) + LANE.h / 2, y2 = b.toY(drawing.laneOf[which][to].y) + LANE.h / 2;
  if (Math.max(x1, x2) < LANE.left || Math.min(x1, x2) > b.width) return;
  ctx.globalAlpha = alpha; ctx.strokeStyle = ctx.fillStyle = kind === 0 ? tone.mark : kind === 1 ? tone.accent : tone.soft; ctx.lineWidth = 1.2;
  ctx.setLineDash(kind === 2 ? [4, 3] : []);
  ctx.beginPath(); ctx.moveTo(x1, y1);
  ctx.bezierCurveTo(x1 + 20, y1, x2 - 20, y2, x2, y2); ctx.stroke();
  ctx.setLineDash([]);
  ctx.beginPath(); ctx.moveTo(x2, y2); ctx.lineTo(x2 - 6, y2 - 3.5); ctx.lineTo(x2 - 6, y2 + 3.5); ctx.fill();
  ctx.globalAlpha = 1;
}

const FLOWS = ["copied value", "value", "wait"];
function hitTimeline(b, x, y, drawing) {
  if (x < LANE.left || y < LANE.top) return null;
  const wy = b.fromY(y), lane = drawing.lanes.find((one) => wy >= one.y && wy < one.y + LANE.h);
  if (!lane) return null;
  const line = plan().timelines[lane.which], e = line.events, near = 2 / b.kx, ns = b.fromX(x);
  for (let i = drawing.from(lane, ns - near); i < lane.events.length; i++) {
    const at = lane.events[i];
    if (e.start[at] > ns + near) break;
    const waits = (drawing.flows[lane.which].get(at) || []).filter(([, to]) => to === at).slice(0, 4).map(([from, , kind]) => `after ${nodeName(e.nid[from])} (${FLOWS[kind]})`);
    return {
      nid: e.nid[at],
      lines: [nodeName(e.nid[at]), `${line.label}, ${line.queues[e.queue[at]]}, run ${e.run[at]}`, `${e.start[at].toLocaleString("en")} to ${(e.start[at] + e.ns[at]).toLocaleString("en")} ns: ${nsText(e.ns[at])}`,
        e.dispatch[at] ? `of it dispatch ${nsText(e.dispatch[at])}` : null, `${textOf(nodes().op[e.nid[at]])}${textOf(nodes().bound[e.nid[at]]) ? `, bound by ${textOf(nodes().bound[e.nid[at]])}` : ""}; time is ${line.bases[e.basis[at]]}`, drawing.critical[lane.which].has(at) ? "on the critical path" : null, ...waits],
    };
  }
  return null;
}

"use strict";
// The graph: groups that open and close, nodes and copies in ranks, edges. Ranks and columns come with the data;
// what is added here are sizes, which depend on the groups that are open.

const NODE = { w: 168, h: 38, gapX: 18, gapY: 34, head: 24, pad: 14 };

class GraphDrawing {
  constructor() { this.load(); }

  load() {
    const tree = plan().graph.tree;
    this.tree = tree;
    this.open = new Set(tree.open);
    this.children = tree.name.map(() => []); // rows of {group or nid, rank, column}
    tree.parent.forEach((parent, group) => { if (parent >= 0) this.children[parent].push({ group, spot: tree.spot[group] }); });
    tree.home.forEach((home, nid) => { if (home >= 0) this.children[home].push({ nid, spot: tree.node_spot[nid] }); });
    this.sums();
    this.arrange();
  }

  /** Of each group: nodes by device, ns and bytes of all in it. */
  sums() {
    const n = nodes(), tree = this.tree;
    this.total = tree.name.map(() => ({ devices: {}, ns: 0, bytes: 0, copies: 0 }));
    tree.home.forEach((home, nid) => {
      for (let group = home; group >= 0; group = tree.parent[group]) {
        const sum = this.total[group];
        sum.devices[n.device[nid]] = (sum.devices[n.device[nid]] || 0) + 1;
        sum.ns += n.ns[nid] || 0; sum.bytes += n.bytes[nid]; sum.copies += n.kind[nid] === 1;
      }
    });
  }

  /** Boxes of all that is seen, in world pixels, and the edges between them. */
  arrange() {
    this.boxes = [];
    this.nodeBox = new Map(); this.groupBox = new Map();
    this.size = this.measure(0);
    this.place(0, 0, 0, this.size);
    this.edges = this.lift();
  }

  measure(group) {
    const rows = new Map();
    for (const child of this.children[group]) {
      child.size = child.nid !== undefined || !this.open.has(child.group) ? { w: NODE.w, h: NODE.h } : this.measure(child.group);
      if (!rows.has(child.spot[0])) rows.set(child.spot[0], []);
      rows.get(child.spot[0]).push(child);
    }
    const size = { w: NODE.w, h: 0, rows: [...rows].sort((a, b) => a[0] - b[0]).map(([, row]) => row.sort((a, b) => a.spot[1] - b.spot[1])) };
    for (const row of size.rows) {
      row.w = row.reduce((sum, child) => sum + child.size.w + NODE.gapX, -NODE.gapX);
      row.h = row.reduce((most, child) => Math.max(most, child.size.h), 0);
      size.w = Math.max(size.w, row.w);
      size.h += row.h + NODE.gapY;
    }
    size.h += (group ? NODE.head + NODE.pad : 0) - NODE.gapY;
    size.w += group ? 2 * NODE.pad : 0;
    return size;
  }

  place(group, x, y, size) {
    let top = y + (group ? NODE.head : 0);
    for (const row of size.rows) {
      let left = x + (size.w - row.w) / 2;
      for (const child of row) {
        const box = { x: left, y: top + (row.h - child.size.h) / 2, w: child.size.w, h: child.size.h, nid: child.nid, group: child.group, open: false };
        this.boxes.push(box);
        if (child.nid !== undefined) this.nodeBox.set(child.nid, box);
        else {
          this.groupBox.set(child.group, box);
          box.open = this.open.has(child.group);
          if (box.open) this.place(child.group, box.x, box.y, child.size);
        }
        left += child.size.w + NODE.gapX;
      }
      top += row.h + NODE.gapY;
    }
  }

  /** The box in which a node is seen: its own, or that of the outermost closed group around it. */
  seen(nid) {
    let found = this.nodeBox.get(nid);
    for (let group = this.tree.home[nid]; !found && group >= 0; group = this.tree.parent[group]) if (this.groupBox.has(group)) found = this.groupBox.get(group);
    return found;
  }

  lift() {
    const edges = plan().graph.edges, found = new Map(), kinds = nodes().kind;
    edges.from.forEach((from, at) => {
      if (!edges.drawn[at] || this.tree.home[edges.to[at]] < 0) return;
      const a = this.seen(from), b = this.seen(edges.to[at]);
      if (!a || !b || a === b) return;
      if (!a.id) a.id = ++this.ids || (this.ids = 1);
      if (!b.id) b.id = ++this.ids || (this.ids = 1);
      const key = `${a.id} ${b.id}`;
      let edge = found.get(key);
      if (!edge) found.set(key, edge = { a, b, rows: [], bytes: 0, copy: false });
      edge.rows.push(at);
      edge.bytes += edges.bytes[at];
      edge.copy = edge.copy || kinds[from] === 1 || kinds[edges.to[at]] === 1;
    });
    return [...found.values()];
  }

  /** Opens the groups around a node. */
  reveal(nid) {
    let opened = false;
    for (let group = this.tree.home[nid]; group >= 0; group = this.tree.parent[group]) if (!this.open.has(group)) { this.open.add(group); opened = true; }
    if (opened) this.arrange();
    return opened;
  }

  toggle(group) {
    if (this.open.has(group)) this.open.delete(group); else this.open.add(group);
    this.arrange();
  }
}

function curve(edge) {
  const x1 = edge.a.x + edge.a.w / 2, y1 = edge.a.y + edge.a.h, x2 = edge.b.x + edge.b.w / 2, y2 = edge.b.y;
  const far = y2 - y1 > NODE.gapY * 1.5 && Math.abs(x1 - x2) < NODE.w / 2, bend = Math.min(Math.max((y2 - y1) / 2, 18), 90);
  const side = far ? NODE.w * 0.62 : 0; // an edge past other boxes goes around them
  return [x1 + side * 0.2, y1, x1 + side, y1 + bend, x2 + side, y2 - bend, x2 + side * 0.2, y2];
}
function along([x1, y1, ax, ay, bx, by, x2, y2], t) {
  const u = 1 - t, p = u * u * u, q = 3 * u * u * t, r = 3 * u * t * t, s = t * t * t;
  return [p * x1 + q * ax + r * bx + s * x2, p * y1 + q * ay + r * by + s * y2];
}

function graphView(section) {
  if (!plan().graph.tree) { section.append(el("p", {}, "A trace has no graph: view the model with the trace beside it.")); return null; }
  let drawing = new GraphDrawing(), colours = colouring();
  const board = new Board({
    label: "graph of the plan; all nodes are in the table of nodes, too", same: true, most: 8, first: 1.2, least: 0.55,
    bounds: () => ({ x: 0, y: 0, w: drawing.size.w, h: drawing.size.h }),
    draw: (ctx, b) => drawGraph(ctx, b, drawing, colours),
    hit: (b, x, y) => hitGraph(b, x, y, drawing, toggle),
    key: (event) => {
      if (event.key !== "Enter" || state.nid < 0) return false;
      const group = drawing.tree.home[state.nid];
      if (group > 0) toggle(group);
      return true;
    },
  });
  const where = el("span", { class: "soft", id: "graph-size" });
  function arranged() { where.textContent = `${plural(drawing.boxes.length, "box").replace("boxs", "boxes")} of ${plural(drawing.tree.count[0], "node")}`; board.draw(); }
  function toggle(group) {
    const before = drawing.groupBox.get(group), dx = before ? board.toX(before.x) : 0, dy = before ? board.toY(before.y) : 0;
    drawing.toggle(group);
    const after = drawing.groupBox.get(group);
    if (before && after) { board.ox = after.x + after.w / 2 - (dx + before.w * board.kx / 2) / board.kx; board.oy = after.y - dy / board.ky; board.moved = true; }
    arranged();
  }
  function all(open) {
    drawing.open = open ? new Set(drawing.tree.name.keys()) : new Set([0]);
    drawing.arrange();
    arranged();
    board.fit();
  }
  /** Shows the selected node: opens the groups around it and, where it is not in sight, goes there. */
  function reveal() {
    if (state.nid < 0 || drawing.tree.home[state.nid] < 0) return;
    drawing.reveal(state.nid);
    const box = drawing.nodeBox.get(state.nid);
    if (!box) return;
    const inside = board.toX(box.x) > 0 && board.toX(box.x + box.w) < board.width && board.toY(box.y) > 0 && board.toY(box.y + box.h) < board.height;
    if (!inside || board.kx < 0.45) board.fit({ x: box.x - 260, y: box.y - 170, w: box.w + 520, h: box.h + 340 }, 1.2);
    arranged();
  }
  onChange((what) => {
    if (what === "plan") { drawing = new GraphDrawing(); board.fit(board.view.bounds(), board.view.first, board.view.least); }
    colours = colouring();
    if (what === "nid" && !section.hidden) reveal();
    arranged();
  });
  section.append(el("div", { class: "bar" }, boardBar(board), el("button", { onclick: () => all(true) }, "open all"), el("button", { onclick: () => all(false) }, "close all"), colourBar(), where), board.element);
  arranged();
  return { board, reveal, toggle, all, get drawing() { return drawing; } };
}

function drawGraph(ctx, b, drawing, colours) {
  const seen = (box) => b.toX(box.x) < b.width && b.toX(box.x + box.w) > 0 && b.toY(box.y) < b.height && b.toY(box.y + box.h) > 0;
  const chosen = state.nid >= 0 && drawing.tree.home[state.nid] >= 0 ? drawing.seen(state.nid) : null;
  const line = variable("--line"), soft = variable("--soft"), text = variable("--text"), mark = variable("--mark"), accent = variable("--accent"), back = variable("--back"), panel = variable("--panel");
  for (const box of drawing.boxes) {
    if (!box.open || !seen(box)) continue;
    ctx.fillStyle = panel; ctx.strokeStyle = soft; ctx.lineWidth = 1;
    rounded(ctx, b, box, 6); ctx.fill(); ctx.stroke();
    if (b.kx > 0.25) { ctx.font = `600 ${Math.max(10, 12 * Math.min(b.kx, 1))}px system-ui, sans-serif`; ctx.fillStyle = text; ctx.fillText(fitText(ctx, `▾ ${groupText(drawing, box.group)}`, box.w * b.kx - 12), b.toX(box.x) + 7, b.toY(box.y) + 12 * b.ky); }
  }
  const later = [], far = b.kx < 0.3;
  for (const edge of drawing.edges) {
    const low = Math.min(edge.a.y, edge.b.y), high = Math.max(edge.a.y + edge.a.h, edge.b.y + edge.b.h);
    if (b.toY(high) < 0 || b.toY(low) > b.height) continue;
    if (edge.a === chosen || edge.b === chosen) { later.push(edge); continue; }
    if (far) continue;
    ctx.strokeStyle = edge.copy ? mark : soft;
    strokeEdge(ctx, b, edge, 0.55);
  }
  if (far) farEdges(ctx, b, drawing, soft, mark);
  for (const edge of later) { ctx.strokeStyle = accent; strokeEdge(ctx, b, edge, 1); }
  for (const box of drawing.boxes) {
    if (box.open || !seen(box)) continue;
    if (box.nid === undefined) closedBox(ctx, b, box, drawing, { line, text, soft, panel });
    else nodeBox(ctx, b, box, colours, { line, text, soft, mark, back });
    if (box === chosen) { ctx.strokeStyle = accent; ctx.lineWidth = 3; rounded(ctx, b, box, 5); ctx.stroke(); }
  }
  ctx.setLineDash([]);
}

function strokeEdge(ctx, b, edge, alpha) {
  const [x1, y1, ax, ay, bx, by, x2, y2] = curve(edge);
  ctx.globalAlpha = alpha;
  ctx.setLineDash(edge.copy ? [5, 3] : []);
  ctx.lineWidth = Math.max(0.6, Math.min(Math.log10(edge.bytes + 10) * 0.42, 4)) * Math.min(Math.max(b.kx, 0.5), 1.4);
  ctx.beginPath();
  ctx.moveTo(b.toX(x1), b.toY(y1));
  ctx.bezierCurveTo(b.toX(ax), b.toY(ay), b.toX(bx), b.toY(by), b.toX(x2), b.toY(y2));
  ctx.stroke();
  ctx.globalAlpha = 1;
  ctx.setLineDash([]);
}

/** Edges of a drawing seen from afar: straight, thin, and stroked together, which thousands of them need. */
function farEdges(ctx, b, drawing, soft, mark) {
  for (const copy of [false, true]) {
    ctx.strokeStyle = copy ? mark : soft; ctx.lineWidth = 0.6; ctx.globalAlpha = 0.55;
    ctx.beginPath();
    for (const edge of drawing.edges) {
      if (edge.copy !== copy) continue;
      const y1 = b.toY(edge.a.y + edge.a.h), y2 = b.toY(edge.b.y);
      if (Math.max(y1, y2) < 0 || Math.min(y1, y2) > b.height) continue;
      ctx.moveTo(b.toX(edge.a.x + edge.a.w / 2), y1);
      ctx.lineTo(b.toX(edge.b.x + edge.b.w / 2), y2);
    }
    ctx.stroke();
    ctx.globalAlpha = 1;
  }
}

function rounded(ctx, b, box, radius) {
  ctx.beginPath();
  ctx.roundRect(b.toX(box.x), b.toY(box.y), box.w * b.kx, box.h * b.ky, radius * Math.min(b.kx, 1));
}
const groupText = (drawing, group) => `${drawing.tree.name[group]}  ·  ${plural(drawing.tree.count[group], "node")}${drawing.total[group].ns ? `  ·  ${nsText(drawing.total[group].ns)}` : ""}`;

/** A closed group: a stripe says which devices its nodes are on. */
function closedBox(ctx, b, box, drawing, tone) {
  const x = b.toX(box.x), y = b.toY(box.y), w = box.w * b.kx, h = box.h * b.ky, sum = drawing.total[box.group];
  ctx.fillStyle = tone.panel; ctx.strokeStyle = tone.soft; ctx.lineWidth = 1.6;
  rounded(ctx, b, box, 5); ctx.fill(); ctx.stroke();
  const all = Object.values(sum.devices).reduce((a, c) => a + c, 0) || 1;
  let left = x + 2;
  for (const [did, count] of Object.entries(sum.devices)) { ctx.fillStyle = paint(+did); ctx.fillRect(left, y + h - 6 * b.ky, (w - 4) * count / all, 4 * b.ky); left += (w - 4) * count / all; }
  if (b.kx < 0.35) return;
  const size = 12 * Math.min(b.kx, 1.3);
  ctx.fillStyle = tone.text; ctx.font = `600 ${size}px system-ui, sans-serif`;
  ctx.fillText(fitText(ctx, `▸ ${drawing.tree.name[box.group]}`, w - 12), x + 6, y + h * 0.3);
  ctx.fillStyle = tone.soft; ctx.font = `${size * 0.9}px system-ui, sans-serif`;
  ctx.fillText(fitText(ctx, `${plural(drawing.tree.count[box.group], "node")} · ${nsText(sum.ns)}${sum.copies ? ` · ${sum.copies} copies` : ""}`, w - 12), x + 6, y + h * 0.64);
}

function nodeBox(ctx, b, box, colours, tone) {
  const n = nodes(), nid = box.nid, x = b.toX(box.x), y = b.toY(box.y), w = box.w * b.kx, h = box.h * b.ky, kind = n.kind[nid];
  if (b.kx < 0.3) { ctx.fillStyle = kind === 1 ? tone.mark : colours.of(nid); ctx.fillRect(x, y, w, h); return; }
  ctx.fillStyle = tone.back; ctx.strokeStyle = kind === 1 ? tone.mark : tone.soft; ctx.lineWidth = kind === 1 ? 1.6 : 0.8;
  ctx.setLineDash(kind === 2 ? [3, 2] : []);
  rounded(ctx, b, box, kind === 2 ? 16 : 4); ctx.fill();
  ctx.fillStyle = colours.of(nid);
  ctx.fillRect(x + 1, y + 1, Math.max(7 * b.kx, 2), h - 2);
  if (b.kx <= 0.35) ctx.fillRect(x + 1, y + 1, w - 2, h - 2);
  rounded(ctx, b, box, kind === 2 ? 16 : 4); ctx.stroke();
  ctx.setLineDash([]);
  if (b.kx < 0.35) return;
  const size = 12 * Math.min(b.kx, 1.3), left = x + 13 * b.kx, own = n.name[nid].split(/[/.:]+/).filter(Boolean);
  ctx.fillStyle = tone.text; ctx.font = `${size}px system-ui, sans-serif`;
  ctx.fillText(fitText(ctx, own.slice(-2).join("/") || n.name[nid], w - 18 * b.kx), left, y + h * 0.32);
  ctx.fillStyle = tone.soft; ctx.font = `${size * 0.88}px system-ui, sans-serif`;
  ctx.fillText(fitText(ctx, `${textOf(n.op[nid])}${n.ns[nid] ? ` · ${nsText(n.ns[nid])}` : ""} · ${deviceOf(nid)}`, w - 18 * b.kx), left, y + h * 0.7);
}

function hitGraph(b, x, y, drawing, toggle) {
  const wx = b.fromX(x), wy = b.fromY(y);
  for (let at = drawing.boxes.length - 1; at >= 0; at--) {
    const box = drawing.boxes[at];
    if (wx < box.x || wx > box.x + box.w || wy < box.y || wy > box.y + (box.open ? NODE.head : box.h)) continue;
    if (box.nid === undefined) {
      const sum = drawing.total[box.group], devices = Object.entries(sum.devices).map(([did, count]) => `${plan().devices[did].name}: ${count}`);
      return { lines: [groupText(drawing, box.group), devices.join(", "), `click to ${box.open ? "close" : "open"}`], act: () => toggle(box.group) };
    }
    return { nid: box.nid, lines: nodeLines(box.nid) };
  }
  return hitEdge(b, wx, wy, drawing);
}

function nodeLines(nid) {
  const n = nodes();
  return [n.name[nid], `${textOf(n.op[nid])} on ${deviceOf(nid)}${n.ns[nid] ? `, ${nsText(n.ns[nid])}` : ""}${textOf(n.bound[nid]) ? `, bound by ${textOf(n.bound[nid])}` : ""}`, `${textOf(n.type[nid])}  ${textOf(n.layout[nid])}`, textOf(n.cause[nid])];
}

function hitEdge(b, wx, wy, drawing) {
  const near = 6 / b.kx, edges = plan().graph.edges;
  for (const edge of drawing.edges) {
    const points = curve(edge);
    if (wy < Math.min(points[1], points[7]) - near || wy > Math.max(points[1], points[7]) + near || wx < Math.min(points[0], points[2], points[4], points[6]) - near || wx > Math.max(points[0], points[2], points[4], points[6]) + near) continue;
    for (let t = 0; t <= 1; t += 0.04) {
      const [x, y] = along(points, t);
      if (Math.abs(x - wx) > near || Math.abs(y - wy) > near) continue;
      const lines = edge.rows.slice(0, 4).map((at) => `${nodeName(edges.from[at])} → ${nodeName(edges.to[at])}: ${textOf(edges.type[at])} ${textOf(edges.layout[at])}, ${bytesText(edges.bytes[at])}`);
      return { lines: [...lines, edge.rows.length > 4 ? `and ${edge.rows.length - 4} more, ${bytesText(edge.bytes)} in all` : null], act: () => select(edges.from[edge.rows[0]]) };
    }
  }
  return null;
}

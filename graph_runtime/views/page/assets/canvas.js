"use strict";
// A canvas that pans, zooms, hovers and selects, by pointer, wheel and keyboard. Views say what is drawn and what is hit.

const SETTLE = 1e-9;

class Board {
  /** view: {label, zoomX, zoomY, same (one scale for both), bounds() -> {x, y, w, h}, draw(ctx, board), hit(board, x, y) -> {nid, lines, act} or null,
      left, top: pixels of margins that do not move}. World (x, y) is at screen ((x - ox) * kx + left, (y - oy) * ky + top). */
  constructor(view) {
    this.view = { left: 0, top: 0, zoomX: true, zoomY: true, ...view };
    this.ox = this.oy = 0; this.kx = this.ky = 1;
    this.asked = false; this.fitted = false;
    this.canvas = el("canvas", { tabindex: 0, role: "img", "aria-label": view.label });
    this.tip = el("div", { class: "tip", hidden: true });
    this.element = el("div", { class: `board${view.short ? " short" : ""}` }, this.canvas, this.tip);
    this.ctx = this.canvas.getContext("2d");
    new ResizeObserver(() => this.resize()).observe(this.element);
    this.listen();
  }

  get width() { return this.element.clientWidth; }
  get height() { return this.element.clientHeight; }

  resize() {
    if (!this.width || !this.height) return;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    if (!this.fitted || !this.moved) this.fit(this.view.bounds(), this.view.first, this.view.least);
    this.paint();
  }

  /** Shows all of the view's bounds, or of a box; at a scale of ``least`` or more, from the top. */
  fit(box = this.view.bounds(), most = Infinity, least = 0) {
    if (!this.width) { this.fitted = false; return; }
    const w = this.width - this.view.left, h = this.height - this.view.top;
    let kx = w / Math.max(box.w, SETTLE), ky = this.view.zoomY ? h / Math.max(box.h, SETTLE) : 1;
    if (this.view.same) kx = ky = Math.max(Math.min(kx, ky, most), least);
    this.kx = kx; this.ky = ky;
    this.ox = box.x - (w / kx - box.w) / 2;
    this.oy = this.view.zoomY ? box.y - Math.max((h / ky - box.h) / 2, this.view.same ? 6 / ky : 0) : box.y;
    this.fitted = true; this.moved = false; // what nothing moved follows the size of the window
    this.draw();
  }

  toX(x) { return (x - this.ox) * this.kx + this.view.left; }
  toY(y) { return (y - this.oy) * this.ky + this.view.top; }
  fromX(x) { return (x - this.view.left) / this.kx + this.ox; }
  fromY(y) { return (y - this.view.top) / this.ky + this.oy; }

  /** Draws at the next frame. */
  draw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.paint(); });
  }

  paint() {
    if (!this.width) return;
    const ratio = window.devicePixelRatio || 1, ctx = this.ctx;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, this.width, this.height);
    ctx.font = "12px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    this.view.draw(ctx, this);
  }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    this.moved = true;
    const wx = this.fromX(x), wy = this.fromY(y), most = this.view.most || Infinity;
    if (this.view.zoomX) this.kx = Math.min(this.kx * factor, most);
    if (this.view.zoomY) this.ky = this.view.same ? this.kx : this.ky * factor;
    this.ox = wx - (x - this.view.left) / this.kx;
    if (this.view.zoomY) this.oy = wy - (y - this.view.top) / this.ky;
    this.keep();
    this.draw();
  }

  pan(dx, dy) {
    this.moved = true;
    this.ox -= dx / this.kx; this.oy -= dy / this.ky;
    this.keep();
    this.draw();
  }

  /** Never so far that nothing of the bounds is seen. */
  keep() {
    const box = this.view.bounds(), w = (this.width - this.view.left) / this.kx, h = (this.height - this.view.top) / this.ky;
    this.ox = Math.min(Math.max(this.ox, box.x - 0.9 * w), box.x + box.w - 0.1 * w);
    const least = this.view.zoomY ? box.y - 0.9 * h : box.y;
    this.oy = Math.min(Math.max(this.oy, least), Math.max(box.y + box.h - (this.view.zoomY ? 0.1 : 0.9) * h, least));
  }

  listen() {
    const canvas = this.canvas;
    let from = null, travelled = 0;
    const at = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const [x, y] = at(event);
      if (!this.view.zoomY && (event.shiftKey || x < this.view.left)) this.pan(0, -event.deltaY);
      else this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), x, y);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => { from = at(event); travelled = 0; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = at(event);
      if (from) {
        travelled += Math.abs(x - from[0]) + Math.abs(y - from[1]);
        if (travelled > 3) { this.pan(x - from[0], y - from[1]); from = [x, y]; this.show(null); return; }
      }
      this.show(this.view.hit(this, x, y), x, y);
    });
    canvas.addEventListener("pointerup", (event) => {
      const [x, y] = at(event);
      const still = from && travelled <= 3;
      from = null;
      if (!still) return;
      const found = this.view.hit(this, x, y);
      if (found && found.act) found.act();
      else if (found && found.nid !== undefined) select(found.nid);
      else if (this.view.empty) this.view.empty(this, x, y);
      else select(-1);
    });
    canvas.addEventListener("pointerleave", () => this.show(null));
    canvas.addEventListener("dblclick", (event) => {
      const found = this.view.hit(this, ...at(event));
      if (found && found.open) found.open();
    });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const step = 60, moves = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (moves[event.key]) this.pan(...moves[event.key]);
    else if (event.key === "+" || event.key === "=") this.zoom(1.4);
    else if (event.key === "-") this.zoom(1 / 1.4);
    else if (event.key === "0" || event.key === "f") this.fit();
    else if (this.view.key && this.view.key(event)) { /* the view took it */ } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  show(found, x, y) {
    this.canvas.style.cursor = found ? "pointer" : "grab";
    this.tip.hidden = !found || !found.lines;
    if (this.tip.hidden) return;
    this.tip.textContent = found.lines.filter(Boolean).join("\n");
    const box = this.tip.getBoundingClientRect();
    this.tip.style.left = `${Math.max(Math.min(x + 14, this.width - box.width - 4), 2)}px`;
    this.tip.style.top = `${y + 18 + box.height > this.height ? Math.max(y - box.height - 8, 2) : y + 18}px`;
  }
}

const widths = new Map();
/** The text, without its middle where it is wider than there is room. */
function fitText(ctx, text, room) {
  if (room < 12) return "";
  if (text.length > 300) text = `${text.slice(0, 150)}…${text.slice(-150)}`;
  let each = widths.get(ctx.font);
  if (each === undefined) widths.set(ctx.font, each = ctx.measureText("abcdefghijklmnopqrstuvwxyz_0123456789").width / 37);
  const most = Math.floor(room / each);
  if (text.length <= most) return text;
  const tail = Math.floor((most - 1) / 2);
  return most < 3 ? "" : `${text.slice(0, most - 1 - tail)}…${text.slice(text.length - tail)}`;
}

/** Positions of ticks between two numbers, about as many as asked for, at multiples of a power of the base. */
function ticks(low, high, about, base = 10) {
  const rough = (high - low) / Math.max(about, 1), power = base ** Math.floor(Math.log(Math.max(rough, 1e-12)) / Math.log(base));
  const step = (base === 2 ? [1, 2] : [1, 2, 5, 10]).map((by) => by * power).find((by) => by >= rough) || power * base;
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high && found.length < 100; at += step) found.push(at);
  return { at: found, step };
}

/** A tick's text in the unit that its step has: neighbours differ. */
function tickTime(ns, step) {
  const [unit, by] = step >= 1e9 ? ["s", 1e9] : step >= 1e6 ? ["ms", 1e6] : step >= 1e3 ? ["us", 1e3] : ["ns", 1];
  return `${Number((ns / by).toFixed(step < by ? 3 : 0)).toLocaleString("en")} ${unit}`;
}

/** Buttons that zoom and fit a board. */
function boardBar(board) {
  return [
    el("button", { onclick: () => board.zoom(1.4), "aria-label": "zoom in", title: "zoom in (+)" }, "+"),
    el("button", { onclick: () => board.zoom(1 / 1.4), "aria-label": "zoom out", title: "zoom out (-)" }, "−"),
    el("button", { onclick: () => board.fit(), title: "show all (f)" }, "fit"),
  ];
}

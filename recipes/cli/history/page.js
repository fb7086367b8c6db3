"use strict";
// Zooms and moves the picture, each lock for itself: everything that has a time has it in data-a (and data-b).
const NS = "http://www.w3.org/2000/svg";

class Panel {
  constructor(group) {
    this.group = group;
    this.first = +group.dataset.start;
    this.last = Math.max(+group.dataset.end, this.first + 1e-6);
    this.left = +group.dataset.left;
    this.right = +group.dataset.right;
    const tick = group.querySelector(".tick");
    this.top = tick.querySelector("line").getAttribute("y1");
    this.bottom = tick.querySelector("line").getAttribute("y2");
    this.all();
  }
  all() { this.show(this.first, this.last); }
  x(at) { return this.left + (at - this.a) / (this.b - this.a) * (this.right - this.left); }
  at(x) { return this.a + (x - this.left) / (this.right - this.left) * (this.b - this.a); }
  zoom(factor, x = (this.left + this.right) / 2) {
    const middle = this.at(x), whole = this.last - this.first;
    const wide = Math.min(Math.max((this.b - this.a) / factor, 1e-5), whole);
    const share = (middle - this.a) / (this.b - this.a);
    this.show(middle - wide * share, middle - wide * share + wide);
  }
  move(by) { this.show(this.a - by, this.b - by); }
  show(a, b) {
    const wide = b - a;
    this.a = Math.min(Math.max(a, this.first), this.last - wide);
    this.b = this.a + wide;
    for (const bar of this.group.querySelectorAll(".bar")) {
      const from = this.x(+bar.dataset.a), to = this.x(+bar.dataset.b);
      bar.setAttribute("x", Math.max(from, -1e4));
      bar.setAttribute("width", Math.max(Math.min(to, 1e4) - Math.max(from, -1e4), 0.6));
    }
    for (const label of this.group.querySelectorAll(".label")) {
      const from = Math.max(this.x(+label.dataset.a), this.left);
      const to = Math.min(this.x(+label.dataset.b), this.right);
      label.setAttribute("x", (from + to) / 2);
      const fits = to - from > 6.6 * label.textContent.length + 2;
      label.setAttribute("visibility", fits ? "visible" : "hidden");
    }
    for (const mark of this.group.querySelectorAll(".mark"))
      mark.setAttribute("transform", `translate(${this.x(+mark.dataset.a)},${mark.dataset.y})`);
    this.ticks();
  }
  ticks() {
    for (const old of this.group.querySelectorAll(".tick")) old.remove();
    const wide = this.b - this.a, decade = 10 ** Math.floor(Math.log10(wide / 10));
    const step = [1, 2, 5, 10].map(f => f * decade).find(s => s >= wide / 10 * 0.999);
    const anchor = this.group.querySelector("clipPath");
    for (let i = Math.ceil((this.a - this.first) / step - 1e-9); i * step <= this.b - this.first + 1e-9; i++) {
      const x = this.x(this.first + i * step), tick = document.createElementNS(NS, "g");
      tick.setAttribute("class", "tick");
      const line = tick.appendChild(document.createElementNS(NS, "line"));
      for (const [name, value] of [["x1", x], ["x2", x], ["y1", this.top], ["y2", this.bottom]])
        line.setAttribute(name, value);
      const text = tick.appendChild(document.createElementNS(NS, "text"));
      text.setAttribute("x", x);
      text.setAttribute("y", +this.bottom + 14);
      text.setAttribute("text-anchor", "middle");
      text.textContent = `${+(i * step).toPrecision(10)} s`;
      this.group.insertBefore(tick, anchor);
    }
  }
}

const svg = document.querySelector("#picture svg");
const panels = [...svg.querySelectorAll(".panel")].map(group => new Panel(group));
const said = document.getElementById("said");
const scale = () => svg.viewBox.baseVal.width / svg.getBoundingClientRect().width;
const under = event => panels.find(panel => {
  const box = panel.group.getBoundingClientRect();
  return event.clientY >= box.top && event.clientY <= box.bottom;
});
const buttons = { in: panel => panel.zoom(2), out: panel => panel.zoom(0.5), all: panel => panel.all() };
for (const [id, act] of Object.entries(buttons))
  document.getElementById(id).addEventListener("click", () => panels.forEach(act));
svg.addEventListener("wheel", event => {
  const panel = under(event);
  if (!panel) return;
  event.preventDefault();
  const x = (event.clientX - svg.getBoundingClientRect().left) * scale();
  panel.zoom(event.deltaY < 0 ? 1.25 : 0.8, x);
}, { passive: false });
let held = null;
svg.addEventListener("pointerdown", event => { held = under(event); });
addEventListener("pointerup", () => { held = null; });
svg.addEventListener("pointermove", event => {
  if (held) held.move(event.movementX * scale() / (held.right - held.left) * (held.b - held.a));
});
svg.addEventListener("pointerover", event => {
  const title = event.target.querySelector?.(":scope > title");
  if (title) said.textContent = title.textContent;
});
document.body.dataset.ready = panels.length;

// A pen that writes SVG. It has the part of a canvas's 2D context that the lanes use, so that they are drawn once.

const DEFAULTS = {
  fillStyle: "#000",
  strokeStyle: "#000",
  lineWidth: 1,
  globalAlpha: 1,
  font: "12px sans-serif",
  textAlign: "left",
  textBaseline: "middle", // the only one that lanes use
};
const ANCHORS = { left: "start", center: "middle", right: "end" };
const HATCH_PX = 6;
const MIDDLE = 0.3; // from the baseline of a text to its middle, in font sizes

// A text for XML: lone surrogates and control characters, which XML forbids, are spaces.
export function escapeXml(text) {
  const entities = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return text.replace(/[\p{Cs}\p{Cc}\ufffe\uffff]/gu, " ").replace(/[&<>"]/g, (letter) => entities[letter]);
}

const round = (number) => Number(number.toFixed(2));

function attributesOf(values) {
  return Object.entries(values)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name}="${escapeXml(String(typeof value === "number" ? round(value) : value))}"`)
    .join(" ");
}

export class SvgPen {
  constructor() {
    Object.assign(this, DEFAULTS, { parts: [], clips: new Map(), path: "", dashes: [], saved: [], numGroups: 0 });
    this.rectangle = null; // of the path, for `clip`
    this.ruler = document.createElement("canvas").getContext("2d");
  }

  // The elements so far, after the clip paths that they refer to.
  toString() {
    const clips = [...this.clips].map(([shape, id]) => `<clipPath id="${id}"><rect ${shape}/></clipPath>`);
    return `<defs>${clips.join("")}</defs>${this.parts.join("")}`;
  }

  embed(svg) {
    this.parts.push(svg);
  }

  add(name, attributes, text = "") {
    this.parts.push(`<${name} ${attributesOf(attributes)}${text ? `>${escapeXml(text)}</${name}>` : "/>"}`);
  }

  // A colour with alpha is a colour and an opacity: many programs know no rgba().
  paintOf(kind, style) {
    const [, red, green, blue, alpha] = /^rgba\((\d+), (\d+), (\d+), ([\d.]+)\)$/.exec(style) ?? [],
      opacity = Number(alpha ?? 1) * this.globalAlpha;
    return {
      [kind]: alpha === undefined ? style : `rgb(${red}, ${green}, ${blue})`,
      [`${kind}-opacity`]: opacity === 1 ? null : opacity,
    };
  }

  stroked() {
    return {
      fill: "none",
      ...this.paintOf("stroke", this.strokeStyle),
      "stroke-width": this.lineWidth,
      "stroke-dasharray": this.dashes.length ? this.dashes.join(" ") : null,
    };
  }

  save() {
    this.saved.push(
      Object.fromEntries([...Object.keys(DEFAULTS), "dashes", "numGroups"].map((key) => [key, this[key]])),
    );
    this.numGroups = 0;
  }
  restore() {
    this.parts.push("</g>".repeat(this.numGroups));
    Object.assign(this, this.saved.pop());
  }

  clearRect() {} // it is a new drawing
  fillRect(x, y, width, height) {
    if (this.fillStyle.hatching) return this.hatch(this.fillStyle, x, y, width, height);
    this.add("rect", { x, y, width, height, ...this.paintOf("fill", this.fillStyle) });
  }
  strokeRect(x, y, width, height) {
    this.add("rect", { x, y, width, height, ...this.stroked() });
  }
  setLineDash(dashes) {
    this.dashes = dashes;
  }

  measureText(text) {
    this.ruler.font = this.font;
    return this.ruler.measureText(text);
  }
  fillText(text, x, y) {
    const size = parseFloat(this.font);
    const place = { x, y: y + MIDDLE * size, "font-size": size, "text-anchor": ANCHORS[this.textAlign] };
    if (text) this.add("text", { ...place, ...this.paintOf("fill", this.fillStyle) }, text);
  }

  beginPath() {
    this.path = "";
    this.rectangle = null;
  }
  moveTo(x, y) {
    this.path += `M${round(x)} ${round(y)}`;
  }
  lineTo(x, y) {
    this.path += `${this.path ? "L" : "M"}${round(x)} ${round(y)}`;
  }
  // Lanes draw whole circles only.
  arc(x, y, radius) {
    const half = (sign) => `A${radius} ${radius} 0 0 1 ${round(x + sign * radius)} ${round(y)}`;
    this.path += `M${round(x + radius)} ${round(y)}${half(-1)}${half(1)}`;
  }
  rect(x, y, width, height) {
    this.rectangle = { x, y, width, height };
  }
  fill() {
    this.add("path", { d: this.path, ...this.paintOf("fill", this.fillStyle) });
  }
  stroke() {
    if (this.path) this.add("path", { d: this.path, ...this.stroked() });
  }
  // Clips to the rectangle of the path, until `restore`.
  clip() {
    const shape = attributesOf(this.rectangle);
    if (!this.clips.has(shape)) this.clips.set(shape, `lanes-${this.clips.size}`);
    this.parts.push(`<g clip-path="url(#${this.clips.get(shape)})">`);
    this.numGroups += 1;
  }

  // A fill style of thin lines. They are drawn one by one: a PDF has pictures in place of SVG's patterns.
  createHatching(colour) {
    return { hatching: colour };
  }

  hatch({ hatching }, x, y, width, height) {
    const foot = y + height;
    let d = "";
    // the lines of all rectangles are where x + y is a multiple of the distance
    for (let from = HATCH_PX * Math.ceil((x + y) / HATCH_PX) - foot; from < x + width; from += HATCH_PX) {
      // this one rises from the foot at `from` to the top at `from + height`, within the sides
      const [left, right] = [Math.max(from, x), Math.min(from + height, x + width)];
      if (left < right)
        d += `M${round(left)} ${round(foot + from - left)}L${round(right)} ${round(foot + from - right)}`;
    }
    if (d) this.add("path", { d, fill: "none", ...this.paintOf("stroke", hatching), "stroke-width": 1.2 });
  }
}

// Shapes and words on a canvas.

import { showTurns } from "../dom/dom.js";

// Resizes a canvas to the pixels of the screen; a canvas of that size keeps its content.
export function resizeCanvas(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1,
    pixels = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== pixels[0] || canvas.height !== pixels[1]) [canvas.width, canvas.height] = pixels;
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  return pen;
}

export function line(pen, x0, y0, x1, y1) {
  pen.beginPath();
  pen.moveTo(x0, y0);
  pen.lineTo(x1, y1);
  pen.stroke();
}
export function dot(pen, x, y) {
  pen.beginPath();
  pen.arc(x, y, 3.6, 0, 7);
  pen.fill();
}
export function cross(pen, x, y) {
  line(pen, x - 4, y - 4, x + 4, y + 4);
  line(pen, x - 4, y + 4, x + 4, y - 4);
}
function polygon(pen, ...points) {
  pen.beginPath();
  for (const [x, y] of points) pen.lineTo(x, y);
  pen.fill();
}
export const diamond = (pen, x, y) => polygon(pen, [x, y - 5], [x + 5, y], [x, y + 5], [x - 5, y]);
export const triangle = (pen, x, y) => polygon(pen, [x, y - 5], [x + 5, y + 4], [x - 5, y + 4]);

// A pattern of thin lines; the pen of a figure has its own.
export function createHatching(pen, colour) {
  if (pen.createHatching) return pen.createHatching(colour);
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const small = tile.getContext("2d");
  small.strokeStyle = colour;
  small.lineWidth = 1.2;
  line(small, -1, 7, 7, -1);
  return pen.createPattern(tile, "repeat");
}

// Cuts a text to a width. Measures at most 80 letters.
export function fitText(pen, text, width) {
  const short = showTurns(text.slice(0, 80));
  if (text.length <= 80 && pen.measureText(short).width <= width) return short;
  let low = 0,
    high = short.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText(`${short.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low ? `${short.slice(0, low)}…` : "";
}

// Breaks a text at spaces into lines of a width; the last one is cut.
export function wrapText(pen, text, width, maxLines) {
  const fits = (line) => pen.measureText(line).width <= width;
  let words = showTurns(text.slice(0, 400)).split(" ");
  const lines = [];
  while (words.length && lines.length < maxLines) {
    let count = lines.length === maxLines - 1 ? words.length : 1;
    while (count < words.length && fits(words.slice(0, count + 1).join(" "))) count += 1;
    const line = words.slice(0, count).join(" ");
    lines.push(fitText(pen, line, width));
    words = lines.at(-1) === line ? words.slice(count) : []; // a text that is cut has ended
  }
  return lines.filter(Boolean);
}

// Writes lines around a height, `apart` pixels from one to the next.
export function paintLines(pen, lines, x, y, apart) {
  lines.forEach((line, number) => pen.fillText(line, x, y + (number - (lines.length - 1) / 2) * apart));
}

// Shapes and words on a canvas.

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
export function diamond(pen, x, y) {
  pen.beginPath();
  for (const [dx, dy] of [
    [0, -5],
    [5, 0],
    [0, 5],
    [-5, 0],
  ])
    pen.lineTo(x + dx, y + dy);
  pen.fill();
}
export function triangle(pen, x, y) {
  pen.beginPath();
  pen.moveTo(x, y - 5);
  pen.lineTo(x + 5, y + 4);
  pen.lineTo(x - 5, y + 4);
  pen.fill();
}

export function createHatching(pen, colour) {
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
  const short = text.slice(0, 80);
  if (short.length === text.length && pen.measureText(short).width <= width) return short;
  let low = 0,
    high = short.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText(`${short.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low ? `${short.slice(0, low)}…` : "";
}

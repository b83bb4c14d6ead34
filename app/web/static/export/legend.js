// The legend of a figure: the signs that its lanes have in view, in as few lines as possible.

const LINE_PX = 16,
  LEFT = 4,
  SIGN_PX = 16, // from a sign to its word
  GAP_PX = 11; // between two entries

// Paints the legend below the lanes, each word once; returns the height of the figure.
export function paintLegend(timeline, settings) {
  const { pen, colours, rows, width } = timeline,
    entries = new Map();
  for (const row of rows)
    for (const sign of row.lane.signs(timeline, row, row.isSecond ? row.run.shown : settings))
      if (sign.word && !entries.has(sign.word)) entries.set(sign.word, sign);
  let [x, y] = [LEFT, timeline.height + 2 + LINE_PX / 2];
  for (const { word, sign, colour = colours.ink, paint } of entries.values()) {
    const room = SIGN_PX + pen.measureText(word).width;
    if (x > LEFT && x + room > width) [x, y] = [LEFT, y + LINE_PX];
    Object.assign(pen, { fillStyle: colour, strokeStyle: colour, lineWidth: 1.4 });
    pen.textAlign = "center";
    if (paint) paint(pen, x + 6, y);
    else pen.fillText(sign, x + 6, y);
    Object.assign(pen, { fillStyle: colours.ink, textAlign: "left" });
    pen.fillText(word, x + SIGN_PX, y);
    x += room + GAP_PX;
  }
  return Math.ceil(y + (entries.size ? LINE_PX / 2 + 4 : 0));
}

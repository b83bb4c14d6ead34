// Scores as text: tiles, and a table by group.

import { createNode } from "../player/dom/dom.js";

export function drawTiles(tiles) {
  const box = createNode("div", "scores");
  box.append(
    ...tiles.map(({ label, figure, hint }) => {
      const tile = createNode("div", "score");
      tile.tabIndex = 0;
      tile.dataset.hint = hint;
      tile.setAttribute("role", "group");
      tile.setAttribute("aria-label", `${label}: ${figure}. ${hint}`);
      tile.append(createNode("b", "", figure), createNode("span", "", label));
      return tile;
    }),
  );
  return box;
}

export function drawGroups(groups) {
  const box = createNode("div", "groups");
  box.append(
    ...groups.map((group) => {
      const table = createNode("table", "plain"),
        body = table.createTBody();
      table.createCaption().textContent = group.name;
      for (const { label, hint, score, interval } of group.rows) {
        const row = body.insertRow(),
          name = createNode("th", "", label);
        name.scope = "row";
        name.title = hint;
        row.append(name, createNode("td", "", score), createNode("td", "dim", interval));
      }
      if (group.note) body.insertRow().append(createNode("td", "dim", group.note));
      return table;
    }),
  );
  return box;
}

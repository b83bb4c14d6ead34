// Two texts, one below the other, with the words marked in which they differ. Texts enter as textContent only.

import { createNode, createQuote, showTurns } from "../dom/dom.js";

const MAX_WORDS = 200; // of a text that are compared; the rest is shown without marks

// Returns two quotes; a side is its label and its text. Texts without a common word have no marks.
export function drawDifference([label, text], [otherLabel, other]) {
  const parts = [text, other].map((side) => side.split(/(\s+)/)),
    found = differences(...parts.map(wordsOf));
  return [label, otherLabel].map((who, side) => {
    const quote = createQuote(who, "");
    quote.append(
      ...parts[side].map((part, number) =>
        found[side].has(number / 2) ? createNode("mark", "", part) : showTurns(part),
      ),
    );
    return quote;
  });
}

// Words and spaces alternate. Case and punctuation do not count.
function wordsOf(parts) {
  return parts
    .filter((_, number) => number % 2 === 0)
    .slice(0, MAX_WORDS)
    .map((word) => word.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, ""));
}

// The indices of the words of each text that are not in their longest common subsequence; none if that is empty.
export function differences(a, b) {
  // of the words from two indices on
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1)
      lengths[i][j] = a[i] === b[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
  }
  const found = [new Set(), new Set()];
  if (!lengths[0][0]) return found;
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) [i, j] = [i + 1, j + 1];
    else if (j === b.length || (i < a.length && lengths[i + 1][j] >= lengths[i][j + 1])) found[0].add(i++);
    else found[1].add(j++);
  }
  return found;
}

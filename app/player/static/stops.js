// Where N and P stop: at failures and, if that is switched on, at matched texts of low similarity. The latter is a setting of
// the player: those texts are no failures, and no count or score has them.

const LOW = "low similarity", LOW_SIGN = "≈";
const USUAL_BELOW = 0.8; // a boat for a tower has 0.55 to 0.61, a paraphrase 0.87 to 0.90
let below = similarityOf(remembered("low_similarity")) ?? USUAL_BELOW; // a lower similarity is low

// A similarity as it is typed, 0.8 or 0,8, in hundredths; null for anything else.
function similarityOf(text) {
  const value = text.trim() ? Number(text.trim().replace(",", ".")) : NaN;
  return value >= 0 && value <= 1 ? Number(value.toFixed(2)) : null;
}

// Whether there are outputs that can fail: a reference alone has none.
function canFail(data) { return data.has_reference && data.is_judged && !data.isReferenceAlone; }

function whyNoFailures() {
  if (!data.has_reference) return "There is no reference to fail against.";
  return data.isReferenceAlone ? "There is no run here that can fail: this is the reference alone." : "The run still streams: its failures are known once it ends.";
}
function signOf(kind) { return KINDS[kind] ?? LOW_SIGN; }
function chipWords(kind) { return kind === LOW ? `${LOW} (below ${below.toFixed(2)})` : kind; }

// Matched texts whose similarity, as it is shown, is low; in the shape of failures.
function lowTexts(data) {
  return data.turns.map((turn, number) => ({ turn, number }))
    .filter(({ turn }) => turn.role === "assistant" && turn.verdict === "matched" && turn.score !== null && Number(turn.score.toFixed(2)) < below)
    .map(({ turn, number }) => ({
      kind: LOW, turn: number, reference: turn.link, frame: turn.frame, time: turn.time, key: turn.key, cause: null,
      words: `${turn.score.toFixed(2)}, below ${below.toFixed(2)}: matched, no failure`,
    }));
}

// Failures and, if they are switched on, texts of low similarity, in the order of time.
function stopsOf(data) {
  return kinds.has(LOW) ? [...data.failures, ...lowTexts(data)].sort((a, b) => a.time - b.time) : data.failures;
}

// The setting has changed; the stop that is shown stays if it still is one.
function findStops() {
  const shownStop = cursor === null ? null : data.stops[cursor];
  data.stops = stopsOf(data);
  const isSame = (stop) => stop === shownStop || stop.kind === LOW && shownStop?.kind === LOW && stop.turn === shownStop.turn;
  const number = data.stops.findIndex(isSame);
  cursor = number >= 0 ? number : held === null ? null : failureOf(currentEvent());
  drawAgain();
  drawReview();
  askPaint();
}

function stepFailure(by) {
  const time = screen.time;
  const wanted = data.stops.map((failure, number) => ({ failure, number })).filter(({ failure }) => kinds.has(failure.kind));
  const isBeyond = ({ failure, number }) => (cursor !== null ? by * (number - cursor) > 0 : by * (failure.time - time) > 0.01);
  const next = by > 0 ? wanted.find(isBeyond) : wanted.findLast(isBeyond);
  if (!canFail(data)) return say(whyNoFailures());
  if (!next) return say(wanted.length ? `No failure ${by > 0 ? "after" : "before"} this one.` : "No failure of the chosen kinds.", true);
  goToFailure(next.number);
  const place = wanted.indexOf(next) + 1;
  say(`${signOf(next.failure.kind)} ${next.failure.kind} (${place} of ${wanted.length}) at ${clockText(next.failure.time)}`, true);
}

function drawKinds() {
  const counts = { [LOW]: lowTexts(data).length };
  for (const failure of data.failures) counts[failure.kind] = (counts[failure.kind] ?? 0) + 1;
  find("kinds").replaceChildren(...(canFail(data) ? [...Object.keys(KINDS), LOW].map((kind) => drawChip(kind, counts[kind] ?? 0)) : []));
  drawBelow();
}

function drawChip(kind, count) {
  const chip = node("button", "ss-kind");
  chip.type = "button";
  chip.dataset.kind = kind;
  chip.setAttribute("aria-pressed", kinds.has(kind));
  chip.disabled = !count && kind !== LOW; // at another similarity there may be some
  chip.addEventListener("click", () => {
    if (!kinds.delete(kind)) kinds.add(kind);
    chip.setAttribute("aria-pressed", kinds.has(kind));
    if (kind === LOW) { findStops(); drawBelow(); }
    askPaint();
  });
  return nameChip(chip, count);
}

function nameChip(chip, count) {
  const words = chipWords(chip.dataset.kind);
  chip.title = `${words}: stop there or not`;
  chip.setAttribute("aria-label", `${words}: ${count}`);
  chip.replaceChildren(`${signOf(chip.dataset.kind)} ${count}`, node("small", "", words));
  return chip;
}

// The box of the similarity below which ≈ stops stands beside that chip while it is on.
function drawBelow() {
  find("below").hidden = !data || !canFail(data) || !kinds.has(LOW);
  if (document.activeElement !== find("similarity")) find("similarity").value = below.toFixed(2);
}

find("similarity").addEventListener("change", (event) => {
  const typed = similarityOf(event.target.value);
  say(typed === null ? `“${event.target.value.slice(0, 20)}” is not a similarity: a number from 0 to 1 is. It stays ${below.toFixed(2)}.` : "");
  below = typed ?? below;
  event.target.value = below.toFixed(2);
  if (typed === null || !data) return;
  remember("low_similarity", below.toFixed(2));
  nameChip(find("kinds").querySelector(`[data-kind="${LOW}"]`), lowTexts(data).length);
  findStops();
});
find("similarity").addEventListener("keydown", (event) => { if (event.key === "Enter") canvas.focus({ preventScroll: true }); });

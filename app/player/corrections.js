// Corrections of the reference, a layer over it: text, time, a new turn, or none.

function correct(kind, turn, more = {}) { return give("correction", { correction: { kind, turn, ...more } }); }

// The reference turn that is corrected now: as it stands in the layer, deleted or not; null for another event.
function correctable(event) {
  if (!event || event.kind !== "reference" || !layer()) return null;
  const turn = correctedTurn(event), gone = layer().deleted.find((found) => found.key === event.key);
  return turn ?? (gone ? { ...gone, isDeleted: true } : null);
}

function withCorrectable(work) {
  const turn = correctable(currentEvent());
  if (turn) return work(turn);
  say(layer() ? "Only a turn of the reference can be corrected: go to one with Q and W." : "There is no reference to correct.");
}

// Moves a turn; an update moves with all updates of its moment: a step's end is the next one's begin.
function moveTurn(turn, time) {
  const last = (data.expected_frames - 1) / data.fps;
  const snapped = Math.round(Math.min(last, Math.max(0, time)) * data.fps) / data.fps;
  if (Math.abs(snapped - turn.time) < 1e-6) return;
  const alike = layer().turns.filter((other) => other.role === "update" && Math.abs(other.name.time_s - turn.name.time_s) < 1e-3);
  correct(turn.role === "update" && alike.length > 1 && find("together").checked ? "boundary" : "time", turn.name, { time_s: snapped });
}

function nudge(by) { withCorrectable((turn) => (turn.isDeleted ? say("It is deleted: D brings it back.") : moveTurn(turn, turn.time + by / data.fps))); }

function editText() {
  withCorrectable(() => { openTab("review"); find("edited").focus(); find("edited").select(); });
}

function deleteTurn() {
  withCorrectable((turn) => correct(turn.isDeleted ? "add" : "delete", turn.name));
}

function addTurn() {
  if (!layer()) return say("There is no reference to correct.");
  openTab("review");
  find("adding").hidden = false;
  find("addedText").focus();
}

function finishAdding() {
  const text = find("addedText").value.trim(), role = find("addedRole").value;
  if (!layer()) return;
  if (!text) return say("Write what is to be added.");
  const frame = Math.min(data.expected_frames - 1, gridFrame(data, screen.time)), time_s = Math.round(frame / data.fps * 1000) / 1000;
  const alike = layer().turns.filter((turn) => turn.role === role && turn.name.text === text && Math.abs(turn.name.time_s - time_s) < 1e-3);
  if (!correct("add", { role, time_s, text, number: alike.length })) return;
  find("addedText").value = "";
  find("adding").hidden = true;
  canvas.focus({ preventScroll: true });
}

function drawCorrection(event) {
  const turn = correctable(event), box = find("correction");
  box.hidden = !turn;
  find("add").hidden = find("against").parentElement.hidden = !layer();
  const troubles = (layer()?.conflicts ?? []).filter((found) => found.key === event?.key).map((found) => `Reviewers want different things of its ${found.aspect} (${found.wishes}): the source stands.`);
  find("troubles").replaceChildren(...[...troubles, ...(layer()?.unusable ?? []).map((reason) => `Does not fit: ${reason}`)].map((words) => node("p", "ss-failure", words)));
  if (!turn) return;
  const words = find("edited");
  words.disabled = Boolean(turn.isDeleted);
  fill(words, turn.key, turn.text);
  find("when").textContent = `${turn.time.toFixed(2)} s`;
  find("delete").textContent = turn.isDeleted ? "bring back (D)" : "delete (D)";
  const original = turn.is_added ? "added" : turn.isDeleted ? "deleted" : [turn.text !== turn.name.text && `was “${turn.name.text}”`, turn.time !== turn.name.time_s && `was at ${turn.name.time_s.toFixed(2)} s`].filter(Boolean).join(", ");
  find("original").textContent =  [original, turn.reviewers?.length ? `by ${turn.reviewers.join(", ")}` : ""].filter(Boolean).join(", ");
  find("together").parentElement.hidden = turn.role !== "update";
}

function judgeAgainst() { trigger("against", { corrected: review.wantsCorrected, reviewer: reviewer(), is_blind: review.isBlind }); }

// The lane of the corrected reference: every turn where it stands now, and what was deleted where it stood.
function layerTurns() {
  if (!layer()) return [];
  const isChanged = (turn) => turn.is_added || turn.reviewers.length > 0;
  const torn = new Set(layer().conflicts.map((found) => found.key));
  return [
    ...layer().turns.map((turn) => ({ ...turn, isTorn: torn.has(turn.key), look: isChanged(turn) ? "changed" : "same" })),
    ...layer().deleted.map((turn) => ({ ...turn, look: "deleted" })),
  ].sort((a, b) => a.time - b.time);
}

find("edited").addEventListener("change", (event) => giveTyped(event.target, (text) => withCorrectable((turn) => correct(turn.role === "update" ? "update" : "text", turn.name, { text: text.trim() }))));
find("addedText").addEventListener("keydown", (event) => {
  if (event.key === "Escape") find("adding").hidden = true;
  if (event.key === "Enter") { event.stopPropagation(); finishAdding(); }
});
find("against").addEventListener("change", (event) => { review.wantsCorrected = event.target.checked; judgeAgainst(); });

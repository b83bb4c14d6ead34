// Asks before a page with a live session ends; `monitor.js` marks the page while it has one. Browsers call listeners of
// this event in the order in which they were added, whatever their phase. This script of the page's head comes before
// Gradio, whose listener would close the connection, and so end the session, before the user answers.
window.addEventListener("beforeunload", (event) => {
  if (!document.querySelector("[data-session]")) return;
  event.preventDefault();
  event.stopImmediatePropagation();
});

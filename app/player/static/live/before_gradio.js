// This script of the page's head comes before Gradio.

// Asks before a page with a live session ends; `monitor.js` marks the page while it has one. Browsers call listeners of
// this event in the order in which they were added, whatever their phase: Gradio's would close the connection, and so
// end the session, before the user answers.
window.addEventListener("beforeunload", (event) => {
  if (!document.querySelector("[data-session]")) return;
  event.preventDefault();
  event.stopImmediatePropagation();
});

// Gradio's client warns so at the end of each upload, although nothing is wrong.
const { warn } = console;
console.warn = (...words) => {
  if (words[0] !== "Method not implemented.") warn(...words);
};

// The runs that Batch shows in this window: run A, and run B beside it or "". `entered` is the one that it showed when
// it was entered, which nobody chose; null until then. The list of runs writes them (`workbench/runs.js`).
export const batch = { run: "", other: "", entered: null };

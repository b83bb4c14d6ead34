// The runs that Batch shows: run A, and run B or "". `entered` is the run with which the tab was opened, not one
// that the user chose; null before the tab is opened. The list of runs sets them (`workbench/runs.js`).
export const batch = { run: "", other: "", entered: null };

// Loads plotly.js from the page's own server, once for all figures of the page, and paces its drawings.

const loading = new Map(); // address -> promise of Plotly

// On a page with <base>, as Gradio's, Plotly writes the page's address into the references of a drawing to its own clip
// paths and patterns, which break when the address changes. Plotly sets a new context at each call of `react`.
function keepReferencesLocal(box) {
  let context;
  Object.defineProperty(box, "_context", {
    configurable: true,
    get: () => context,
    set: (made) => {
      context = made && Object.defineProperty(made, "_baseUrl", { get: () => "", set() {} });
    },
  });
}

function withLocalReferences(plotly) {
  const react = (box, ...figure) => {
    if (!Object.hasOwn(box, "_context")) keepReferencesLocal(box);
    return plotly.react(box, ...figure);
  };
  return { ...plotly, react };
}

// Returns a promise of Plotly. The name `window.Plotly` stays as it was: Gradio's own plots may use another version.
export function loadPlotly(url) {
  if (!loading.has(url)) loading.set(url, request(url));
  return loading.get(url);
}

function request(url) {
  return new Promise((resolve, reject) => {
    const before = window.Plotly,
      script = document.createElement("script");
    script.src = url;
    script.onload = () => {
      resolve(withLocalReferences(window.Plotly));
      if (before) window.Plotly = before;
    };
    script.onerror = () => {
      loading.delete(url); // the next figure tries again
      reject(new Error(`${url} cannot be loaded`));
    };
    document.head.append(script);
  });
}

const LEAST_MS = 100,
  MOST_MS = 1000; // from a drawing to the next one

// Returns a function that requests `draw()`, which may be asynchronous. `costsApart()` is the least time between two
// drawings, in multiples of the time of one. An urgent request does not wait for it.
export function pace(draw, costsApart) {
  let timer = 0,
    isDrawing = false,
    isRequested = false,
    due = -Infinity;
  const request = (isUrgent = false) => {
    isRequested = true;
    if (isUrgent) {
      clearTimeout(timer);
      [timer, due] = [0, -Infinity];
    }
    if (!isDrawing) timer ||= setTimeout(start, Math.max(0, due - performance.now()));
  };
  const start = async () => {
    const began = performance.now();
    [timer, isDrawing, isRequested] = [0, true, false];
    try {
      await draw();
    } finally {
      isDrawing = false;
      due = performance.now() + Math.min(MOST_MS, Math.max(LEAST_MS, costsApart() * (performance.now() - began)));
      if (isRequested) request();
    }
  };
  return request;
}

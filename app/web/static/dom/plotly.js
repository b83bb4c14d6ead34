// Loads plotly.js from the page's own server, once for all figures of the page.

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

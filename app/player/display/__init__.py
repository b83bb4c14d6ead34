"""Display in the browser: the component, its script, and the data of a run."""

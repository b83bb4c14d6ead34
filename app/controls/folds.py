"""Buttons that fold a part of the page away; the browser keeps the choice."""

from typing import Final

import gradio as gr

_FOLD_JS: Final = """
const name = '%s', root = document.documentElement, button = element.querySelector('button');
let kept = '';
try { kept = localStorage['stepscope:' + name] ?? ''; } catch {}
const show = (state) => {
    root.dataset[name] = state;
    button.setAttribute('aria-expanded', state === 'open');
};
const choose = (state) => {
    kept = state;
    try { localStorage['stepscope:' + name] = state; } catch {}
    show(state);
};
button.addEventListener('click', () => choose(root.dataset[name] === 'open' ? 'folded' : 'open'));
document.addEventListener('stepscope:unfold', ({detail}) => { if (detail === name) choose('open'); });
document.addEventListener('stepscope:studied', ({detail}) => {
    if (name in detail && !kept) show(detail[name]);
});
show(kept || 'open');
"""


def make_fold(name: str, label: str) -> gr.HTML:
    """Return the button that folds and unfolds the part with the element id ``name``.

    The root element has the state in ``data-NAME``, ``open`` or ``folded``, for the style sheet. The event
    ``stepscope:unfold`` opens the part of its ``detail``; ``stepscope:studied`` sets the states of its ``detail`` as
    long as the user has chosen none.
    """
    attributes = f'type="button" class="fold" aria-expanded="true" aria-controls="{name}"'
    return gr.HTML(
        html_template=f"<button {attributes}>{label}</button>",
        js_on_load=_FOLD_JS % name,
        apply_default_css=False,
        elem_id=f"{name}_fold",
        elem_classes="fold-box",
        padding=False,
    )

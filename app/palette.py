"""Colours of the page, one place for all of it.

The colours can be told apart with any colour vision (after Okabe and Ito, 2008) and stand on white as on black;
wherever one carries a meaning, a word or a pattern carries it too.
"""

from typing import Final

COLOURS: Final = {
    "speak": "#2b83c6",
    "update": "#cf6a12",
    "matched": "#12906f",
    "mismatched": "#d0402b",
    "redundant": "#a557a5",
    "missed": "#d0402b",
    "reference": "#7d848e",
    "user": "#5b74c4",
    "active": "#d9a21b",
    "done": "#12906f",
    "latency": "#9b8bd0",
    "faint": "rgba(125, 132, 142, 0.30)",
    "grid": "rgba(125, 132, 142, 0.25)",
    "shade": "rgba(125, 132, 142, 0.10)",
    "playhead": "#d0402b",
}
"""What each colour means; the page's variables ``--ss-<name>``. Ink is the theme's."""

CSS: Final = (
    ":root { "
    + " ".join(f"--ss-{name}: {colour};" for name, colour in COLOURS.items())
    + " --ss-screen: 334px; }"
    + """
body { --ss-ink: var(--body-text-color); --ss-dim: color-mix(in srgb, var(--body-text-color) 66%, transparent); }
.gradio-container { width: 100%; max-width: 1760px !important; margin: 0 auto; padding-top: 0 !important; }
#title { margin-bottom: -8px; }
#rooms > .tab-wrapper { position: absolute; top: 4px; right: 0; width: 420px; height: auto; padding: 0; }
#rooms > .tab-wrapper .tab-container { justify-content: flex-end; }
#rooms > .tab-wrapper .tab-container::after { display: none; }
#rooms > .tabitem { padding: 8px 0 0; border: none; }
#rooms { position: static; }
#title h1 { font-size: 1.2rem; margin: 0 12px 0 0; display: inline; }
#title p { margin: 0; display: inline; color: var(--ss-dim); }
#status textarea, #batch_status textarea, #desk_status textarea { font-weight: 600; padding: 5px 10px !important; }
:is(#swept, #compared, #exported, #imported) textarea { padding: 5px 10px !important; }
#stage { margin-top: -6px; }
:is(#status, #batch_status, #desk_status, #exported, #imported).problem textarea {
    border-left: 5px solid var(--ss-update); }
#rooms progress { width: 100%; height: 6px; display: block; appearance: none; border: none; }
#rooms progress::-webkit-progress-bar { background: var(--border-color-primary); border-radius: 4px; }
#rooms progress::-webkit-progress-value { background: var(--ss-speak); border-radius: 4px; }
#rooms progress::-moz-progress-bar { background: var(--ss-speak); border-radius: 4px; }
#progress, #batch_progress { margin: -8px 0; }
.stations { list-style: none; margin: 4px 0 0; padding: 0; font-size: 13px; color: var(--ss-dim); }
.stations b { color: var(--ss-ink); margin-right: 8px; }
.stations span { margin-left: 8px; font-variant-numeric: tabular-nums; }
.heat { display: grid; grid-template-columns: 44px repeat(var(--columns), minmax(14px, 1fr)); gap: 2px;
    max-width: 640px; }
.heat .cell { aspect-ratio: 1.4; border-radius: 2px; border: 1px solid var(--border-color-primary);
    background: color-mix(in srgb, var(--ss-speak) var(--share), transparent); }
.heat .best { outline: 3px solid var(--ss-update); outline-offset: -1px; }
.heat .axis { font-size: 11px; color: var(--ss-dim); text-align: center; align-self: center; }
.dim { color: var(--ss-dim); font-size: 13px; }
#downloads { align-items: end; justify-content: flex-end; gap: 6px; }
#rooms .corpus { width: 100%; max-width: 720px; font-size: 14px; border: none; }
#rooms .corpus :is(tr, th, td) { border: none; }
#rooms .corpus th { text-align: left; padding: 12px 10px 3px; }
#rooms .corpus td { padding: 2px 10px; }
#rooms .corpus tr[data-hint] { border-top: 1px solid var(--border-color-primary); }
.corpus tr[data-hint] { cursor: help; }
.corpus tr[data-hint]:is(:hover, :focus) td { background: var(--ss-shade); }
.corpus tr[data-hint] { position: relative; }
.corpus tr[data-hint]:is(:hover, :focus)::after { content: attr(data-hint); position: absolute; z-index: 20;
    left: 100%; top: 0; width: 340px; margin-left: 12px; padding: 6px 10px; border-radius: 6px; font-size: 13px;
    background: var(--body-text-color); color: var(--body-background-fill); }
.reviewers { list-style: none; margin: 0; padding: 0; font-size: 14px; font-variant-numeric: tabular-nums;
    display: grid; grid-template-columns: fit-content(40%) minmax(80px, 360px) 1fr; gap: 2px 12px;
    align-items: center; }
.reviewers li { display: contents; }
.reviewers b { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.reviewers span { color: var(--ss-dim); }
#desk_progress { max-height: 160px; overflow-y: auto; }
#rooms .agreement { font-size: 14px; border: none; font-variant-numeric: tabular-nums; }
#rooms .agreement :is(tr, th, td) { border: none; }
#rooms .agreement :is(th, td) { padding: 2px 14px; text-align: right; }
#rooms .agreement :is(th, td):first-child { text-align: left; }
#rooms .agreement tbody tr { border-top: 1px solid var(--border-color-primary); }
#rooms .agreement tbody tr:first-child { font-weight: 600; }
.agreement th { position: relative; cursor: help; text-decoration: underline dotted; text-underline-offset: 3px; }
.agreement th:is(:hover, :focus)::after { content: attr(data-hint); position: absolute; z-index: 20; left: 0; top: 100%;
    width: 320px; padding: 6px 10px; border-radius: 6px; font-size: 13px; font-weight: 400; text-align: left;
    background: var(--body-text-color); color: var(--body-background-fill); }
#stage { display: grid; gap: 8px; grid-template-columns: minmax(0, 424fr) minmax(0, 300fr) minmax(0, 330fr); }
#player, #player > *, #player div:has(> .ss), #player .ss { display: contents; }
#video { height: var(--ss-screen); min-width: 0; }
#video video { background: #000; height: 100%; }
.ss-board, .ss-foot { grid-column: 1 / -1; }
@media (max-width: 1250px) {
    #stage { grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); }
    .ss-side { grid-column: 1 / -1; order: 3; height: 220px; }
    .ss-board { order: 2; }
    .ss-foot { order: 4; }
}
#scores { overflow: visible; }
.scores { display: flex; flex-wrap: wrap; gap: 8px; }
.score { position: relative; flex: 1 1 7.5rem; padding: 4px 10px; border: 1px solid var(--border-color-primary);
    border-radius: 6px; cursor: help; line-height: 1.25; background: var(--block-background-fill); }
.score b { display: block; font-size: 1.05rem; font-variant-numeric: tabular-nums; }
.score span { font-size: 0.78rem; color: var(--body-text-color); opacity: 0.75; }
.score:hover, .score:focus { border-color: var(--ss-speak); outline: none; }
.score:hover::after, .score:focus::after { content: attr(data-hint); position: absolute; z-index: 20; left: 0;
    bottom: calc(100% + 6px); width: 21rem; padding: 8px 10px; border-radius: 6px; font-size: 0.8rem; line-height: 1.4;
    color: var(--body-text-color); background: var(--background-fill-primary);
    border: 1px solid var(--border-color-primary); box-shadow: 0 4px 14px rgba(0, 0, 0, 0.3); }
.score:nth-last-child(-n+3)::after { left: auto !important; right: 0; }
"""
)
"""Style of the page around the player."""

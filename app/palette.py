"""Colours and patterns of the page, one place for all of it.

The colours can be told apart with any colour vision (after Okabe and Ito, 2008) and stand on white as on black;
wherever one carries a meaning, a word or a pattern carries it too.
"""

from typing import Final

SPEAK: Final = "#2b83c6"
UPDATE: Final = "#cf6a12"
INK: Final = "#7d848e"
GRID: Final = "rgba(125, 132, 142, 0.25)"

STATE_COLOURS: Final = {"not_started": "rgba(125, 132, 142, 0.18)", "in_progress": "#d9a21b", "completed": "#12906f"}
STATE_PATTERNS: Final = {"not_started": "", "in_progress": "/", "completed": ""}

CSS: Final = """
.gradio-container { width: 100%; max-width: 1760px !important; margin: 0 auto; }
#title h1 { font-size: 1.35rem; margin: 0; }
#title p { margin: 0; color: var(--body-text-color-subdued); }
#status textarea { font-weight: 600; }
#status.problem textarea { border-left: 5px solid #cf6a12; }
#progress progress { width: 100%; height: 8px; display: block; appearance: none; border: none; }
#progress progress::-webkit-progress-bar { background: var(--border-color-primary); border-radius: 4px; }
#progress progress::-webkit-progress-value { background: #2b83c6; border-radius: 4px; }
#progress progress::-moz-progress-bar { background: #2b83c6; border-radius: 4px; }
#progress { margin: -8px 0; }
#transcript .table-wrap *, #states .table-wrap * { font-family: var(--font); font-size: 0.85rem; }
#transcript .scroll-top-button { display: none; }
#transcript th * { white-space: nowrap; }
#scores { overflow: visible; }
.scores { display: flex; flex-wrap: wrap; gap: 8px; }
.score { flex: 1 1 7.5rem; padding: 4px 10px; border: 1px solid var(--border-color-primary); border-radius: 6px;
    cursor: help; line-height: 1.25; background: var(--block-background-fill); }
.score b { display: block; font-size: 1.05rem; font-variant-numeric: tabular-nums; }
.score span { font-size: 0.78rem; color: var(--body-text-color); opacity: 0.75; }
.score { position: relative; }
.score:hover, .score:focus { border-color: #2b83c6; outline: none; }
.score:hover::after, .score:focus::after { content: attr(data-hint); position: absolute; z-index: 20; left: 0;
    top: calc(100% + 6px); width: 21rem; padding: 8px 10px; border-radius: 6px; font-size: 0.8rem; line-height: 1.4;
    color: var(--body-text-color); background: var(--background-fill-primary);
    border: 1px solid var(--border-color-primary); box-shadow: 0 4px 14px rgba(0, 0, 0, 0.3); }
.score:nth-last-child(-n+3)::after { left: auto !important; right: 0; }
#video video { background: #000; }
"""

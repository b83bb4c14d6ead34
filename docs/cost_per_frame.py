"""Draws ``cost_per_frame.svg``, time per frame against cache length: ``python -m docs.cost_per_frame``.

The bundled checkpoint's cache is filled with random embeddings to each length; then frames are fed one at a time, and
64 together. The fastest of many passes is drawn, so that a busy machine does not show; on one CPU thread.
"""

import sys
import time
from pathlib import Path

import torch

from stepscope.engine.loading import load_model
from stepscope.engine.model.kv_cache import KVCache
from stepscope.engine.model.smolvlm import StreamingModel

FOLDER = Path(__file__).parent
LENGTHS = (128, 256, 512, 1024, 1536, 2048, 2560, 3072, 3584, 4000)
CHUNKS = {1: "#b3541e", 64: "#1f6f8b"}
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 640, 340, 60, 50, 30


@torch.inference_mode()
def measure(model: StreamingModel, *, chunk: int, repeats: int = 60) -> list[float]:
    """Return milliseconds per frame at each cache length, for passes of ``chunk`` frames."""
    random = torch.Generator().manual_seed(0)
    cache = KVCache(model.num_layers)
    inputs = torch.randn(1, chunk, model.hidden_size, generator=random)
    costs = []
    for length in LENGTHS:
        model(torch.randn(1, length - cache.length, model.hidden_size, generator=random), cache)
        times = []
        for _ in range(repeats):
            began = time.perf_counter()
            model(inputs, cache)
            times.append(1000 * (time.perf_counter() - began) / chunk)
            cache.crop_to(length)
        costs.append(min(times))
    return costs


def draw(costs: dict[int, list[float]]) -> str:
    """Return the curves as SVG."""
    top = 1.1 * max(map(max, costs.values()))

    def x(length: float) -> float:
        return LEFT + (WIDTH - LEFT - 150) * length / 4096

    def y(cost: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * cost / top

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"',
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="18">milliseconds per frame (bundled checkpoint, one CPU thread)</text>',
        f'<text x="{x(2048)}" y="{HEIGHT - 12}" text-anchor="middle">tokens in the cache</text>',
    ]
    for tick in range(0, 4097, 1024):
        parts.append(f'<text x="{x(tick)}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{tick}</text>')
    for step in range(6):
        level = top * step / 5
        parts.append(f'<line x1="{LEFT}" x2="{x(4096)}" y1="{y(level)}" y2="{y(level)}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(level) + 4}" text-anchor="end">{level:.1f}</text>')
    for chunk, values in costs.items():
        points = " ".join(f"{x(n):.1f},{y(cost):.1f}" for n, cost in zip(LENGTHS, values, strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{CHUNKS[chunk]}" stroke-width="2"/>')
        name = "one frame a pass" if chunk == 1 else f"{chunk} frames a pass"
        parts.append(f'<text x="{x(4096) + 8}" y="{y(values[-1]) + 4}" fill="{CHUNKS[chunk]}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    """Measure and draw; print the table."""
    torch.set_num_threads(1)
    model = load_model(FOLDER.parent / "assets" / "checkpoint", device="cpu").smolvlm
    costs = {chunk: measure(model, chunk=chunk) for chunk in CHUNKS}
    (FOLDER / "cost_per_frame.svg").write_text(draw(costs), encoding="utf-8")
    for number, length in enumerate(LENGTHS):
        sys.stdout.write(f"| {length} | " + " | ".join(f"{values[number]:.2f}" for values in costs.values()) + " |\n")


if __name__ == "__main__":
    main()

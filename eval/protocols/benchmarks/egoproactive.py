"""EgoProactive: the time is cut into chunks of 8 s, each labelled interrupt or silent.

**Source**: EgoProactive (arXiv 2606.04970), the scorer of its starter kit.
"""

import math
from collections.abc import Iterable
from typing import Final

from stepscope.eval.protocols.protocol import ROUNDING, Counted, Parameter, Protocol, Sums, Video


def _count(video: Video, *, chunk_s: float) -> Counted:
    def find_chunks(times_s: Iterable[float]) -> list[int]:
        return [int((time_s + ROUNDING) // chunk_s) for time_s in times_s]

    chunks = find_chunks(span.start_s for span in video.references)
    wanted, spoken = set(chunks), set(find_chunks(video.times_s))
    if video.duration_s is None:
        num_chunks = max(wanted | spoken, default=-1) + 1
    else:
        num_chunks = math.ceil((video.duration_s - ROUNDING) / chunk_s)
    wanted, spoken = (found & set(range(num_chunks)) for found in (wanted, spoken))
    sums = {
        "right": len(wanted & spoken),
        "wrong": len(wanted ^ spoken),
        "silent": num_chunks - len(wanted | spoken),
    }
    return Counted(sums, tuple(float(chunk in spoken) for chunk in chunks))


def _summarize(sums: Sums) -> dict[str, float]:
    right, wrong, silent = sums["right"], sums["wrong"], sums["silent"]
    if not right + wrong + silent:
        return dict.fromkeys(("macro_f1", "g_mean", "f1_interrupt", "f1_silent"), math.nan)
    f1_interrupt = 2 * right / (2 * right + wrong) if right else 0.0
    f1_silent = 2 * silent / (2 * silent + wrong) if silent else 0.0
    return {
        "macro_f1": (f1_interrupt + f1_silent) / 2,
        "g_mean": math.sqrt(f1_interrupt * f1_silent),
        "f1_interrupt": f1_interrupt,
        "f1_silent": f1_silent,
    }


PROTOCOLS: Final = (
    Protocol(
        name="egoproactive",
        windows="the chunk of chunk_s that holds the start",
        matching="chunk by chunk: interrupt if it holds a reply, else silent",
        judge="none",
        aggregation="F1 of both labels over the chunks, 0 if undefined; their mean and geometric mean",
        source="EgoProactive (arXiv 2606.04970), scorer of the starter kit",
        main="macro_f1",
        count=_count,
        summarize=_summarize,
        parameters={"chunk_s": Parameter(default=8.0, minimum=0.1)},
    ),
)

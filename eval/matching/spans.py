"""Reply spans: a reference turn with an end, and the responses inside it."""

from collections.abc import Mapping
from dataclasses import replace

from stepscope.engine.records import frame_at
from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.matching.turns import Encode, Match, Pair, compare_texts


def span_frames(turn: Turn, *, fps: float) -> tuple[int, int]:
    """Return the first and the last frame of a reply span, or the frame of an instant twice.

    At 2 frames/s, a span from 4.3 to 5.1 s gives ``(8, 10)``, and one from 4.1 to 4.4 s gives ``(8, 8)``.
    """
    start = frame_at(turn.time_s, fps)
    return start, start if turn.end_s is None else frame_at(turn.end_s, fps)


def delay_from_span(frame: int, turn: Turn, *, fps: float) -> float:
    """Return the distance in seconds from a turn to a frame: negative before it, 0 inside its reply span.

    For the span from 4 to 8 s at 1 fps, frame 2 gives -2.0, frame 6 gives 0.0 and frame 11 gives 3.0.
    """
    start, end = span_frames(turn, fps=fps)
    return (min(frame - start, 0) + max(frame - end, 0)) / fps


def pair_inside_spans(match: Match, sample: Sample, responses: Mapping[int, str], *, encode: Encode) -> Match:
    """Pair each missed turn that has a reply span with the first redundant response inside it.

    The match window is around the start of a turn, so a later response inside a long span has no edge to it. The cost
    of such a pair is that of its texts.
    """
    missed, redundant, pairs = set(match.missed), list(match.redundant), list(match.pairs)
    for turn in sample.turns:
        ref = frame_at(turn.time_s, sample.fps)
        if turn.role != "assistant" or turn.end_s is None or ref not in missed:
            continue
        inside = [frame for frame in redundant if ref <= frame and delay_from_span(frame, turn, fps=sample.fps) == 0]
        if inside:
            score = min(abs(float(compare_texts([(responses[inside[0]], turn.text)], encode)[0])), 1.0)
            pairs.append(Pair(gen_frame=inside[0], ref_frame=ref, cost=1 - score, semantic_score=score))
            redundant.remove(inside[0])
            missed.discard(ref)
    return replace(
        match,
        pairs=tuple(sorted(pairs, key=lambda pair: pair.gen_frame)),
        missed=tuple(frame for frame in match.missed if frame in missed),
        redundant=tuple(redundant),
    )

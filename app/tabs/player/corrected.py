"""The corrected reference of a video, as a window asks for it."""

import gradio as gr

from stepscope.app.context import ReviewContext
from stepscope.app.controls.widgets import read_event
from stepscope.app.reviews.history import read_review
from stepscope.app.security.identity import signed_in, typed_name
from stepscope.eval.annotations.corrected_samples import CorrectedSample, apply_corrections
from stepscope.eval.data.samples import Sample


def read_corrected(reviews: ReviewContext, sample: Sample, event: gr.EventData, request: gr.Request) -> CorrectedSample:
    """Return the corrected reference of a sample. For a blind reviewer only their own corrections apply.

    The event has the reviewer's name (``reviewer``), and whether they are blind (``is_blind``).
    """
    is_blind = reviews.is_blind or bool(read_event(event, "is_blind"))
    only = (signed_in(request) or typed_name(read_event(event, "reviewer"))) if is_blind else None
    corrections = read_review(reviews.store, video_id=sample.video_id, only=only).corrections.get(sample.video_id, ())
    return apply_corrections(sample, corrections)

"""The diagnosis of a recording from Python; ``eval.diagnosis.folder`` diagnoses run folders."""

from collections.abc import Sequence

from stepscope.engine.replay import Recording
from stepscope.eval.data.samples import Sample
from stepscope.eval.diagnosis.classes import Diagnosis, classify
from stepscope.eval.diagnosis.experiments import Experiment, list_experiments
from stepscope.eval.diagnosis.videos import diagnose_video
from stepscope.eval.diagnosis.worker import make_embed
from stepscope.eval.matching.turns import DEFAULT_ENCODER, Encode, import_encoder
from stepscope.eval.reports.scoring import ScoreSettings
from stepscope.eval.runs.streaming.sample_features import SampleFeatures


def explain(
    recording: Recording,
    sample: Sample,
    *,
    experiments: Sequence[Experiment] | None = None,
    encode: Encode | None = None,
    dataset: str = "",
) -> Diagnosis:
    """Return why a finished run of a video failed: its roots, what follows from each, and what prevents them.

    The recording is streamed again many times, by default about 34 times its own cost. Its KV cache is consumed.
    With one video, the controls of each experiment are the right turns of this video alone; ``stepscope explain`` has
    those of a split. Example::

        recording = Recording(checkpoint, encode(checkpoint, read_frames(sample.video_path, fps=sample.fps)),
                              task=Task(goal=sample.goal, steps=sample.steps, user_turns=sample.user_turns))
        list(recording.run())
        for found in explain(recording, sample).roots:
            print(found.root.time_s, found.cause, found.root.num_consequences)

    Args:
        recording: A finished run of the sample's video.
        sample: The video with its reference.
        experiments: Changes to try, by default all; () for the roots alone.
        encode: Function from ``N`` texts to embeddings ``[N, D]``, by default the sentence encoder of the scores.
        dataset: Name that chooses the match window.

    Raises:
        ValueError: The run samples its texts, the sample has no reference, or one that fails by its own scores.
    """
    tried = list_experiments() if experiments is None else tuple(experiments)
    scoring = ScoreSettings(text_encoder=DEFAULT_ENCODER, dataset=dataset)
    steps = diagnose_video(
        recording,
        sample,
        tried,
        encode=encode or import_encoder(DEFAULT_ENCODER).encode,
        scoring=scoring,
        embed=make_embed(SampleFeatures(checkpoint=recording.checkpoint)),
    )
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return classify([end.value], tried)

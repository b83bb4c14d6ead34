"""Scoring beside the run gives the scores of scoring afterwards; its errors are raised in the end."""

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from eval.data.loading import read_split
from eval.data.samples import Sample
from eval.matching.text_encoder import TextEncoder
from eval.metrics.score import VideoAnalysis
from eval.metrics.text import TextPairs
from eval.reports.early_scoring import EarlyScoring
from eval.reports.scoring import make_analyzer, score_run
from eval.runs.worker_messages import WorkerConfig
from tests.support.data.batches import SCORING, no_java
from tests.support.streams.fakes import count_letters


def load(name: str) -> TextEncoder:
    return TextEncoder(name=name, encode=count_letters)


def test_videos_that_were_analysed_early_have_the_same_scores(
    six_videos: Path, live_work: WorkerConfig, undisturbed: Path
) -> None:
    split = read_split(six_videos)
    with no_java() as scorer:
        with EarlyScoring(undisturbed, SCORING, scorer, load=load) as early:
            for sample in split.samples:
                early.add(sample)
            encoder, analyses = early.finish()
        assert set(analyses) == {sample.video_id for sample in split.samples}
        ours = score_run(undisturbed, split, SCORING, encode=encoder.encode, scorer=scorer, analyses=analyses)
        theirs = score_run(undisturbed, split, SCORING, encode=count_letters, scorer=scorer)
    assert repr(ours.report) == repr(theirs.report)
    assert repr(ours.rows) == repr(theirs.rows)


def test_an_encoder_that_cannot_be_loaded_is_reported_in_the_end(tmp_path: Path) -> None:
    def refuse(name: str) -> TextEncoder:
        raise ValueError(f"no encoder {name}")

    with (
        no_java() as scorer,
        EarlyScoring(tmp_path, SCORING, scorer, load=refuse) as early,
        pytest.raises(ValueError, match="no encoder letters"),
    ):
        early.finish()


def test_a_video_without_files_is_left_to_the_scores(six_videos: Path, tmp_path: Path) -> None:
    with no_java() as scorer, EarlyScoring(tmp_path, SCORING, scorer, load=load) as early:
        early.add(read_split(six_videos).samples[0])
        assert early.finish()[1] == {}


def test_videos_are_analysed_while_java_starts(
    six_videos: Path, live_work: WorkerConfig, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts, is_analysed, prepared = Event(), Event(), list[TextPairs]()
    first, *others = read_split(six_videos).samples

    def make_watched(*arguments: Any, **options: Any) -> Callable[[Sample], VideoAnalysis]:
        def analyze(sample: Sample) -> VideoAnalysis:
            analysis = make_analyzer(*arguments, **options)(sample)
            if sample == others[-1]:
                is_analysed.set()
            return analysis

        return analyze

    def start(videos: Sequence[TextPairs]) -> None:
        starts.set()
        assert is_analysed.wait(10), "the other videos wait for Java"
        prepared.extend(videos)

    with no_java() as scorer:
        monkeypatch.setattr(scorer, "prepare", start)
        monkeypatch.setattr("eval.reports.early_scoring.make_analyzer", make_watched)
        with EarlyScoring(undisturbed, SCORING, scorer, load=load) as early:
            early.add(first)
            assert starts.wait(10)
            for sample in others:
                early.add(sample)
            early.finish()
    assert len(prepared) == 6

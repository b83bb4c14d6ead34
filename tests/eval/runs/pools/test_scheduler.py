"""The queue of a batch with a scripted back end: order, retries, failures and shutdown, without a process."""

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace

import pytest

from stepscope.engine.errors import EngineError
from stepscope.eval.data.samples import Sample
from stepscope.eval.runs.folder import VideoRecord
from stepscope.eval.runs.pools.scheduler import WorkerEvent, WorkerExited, run_scheduler
from stepscope.eval.runs.worker_messages import (
    FramesDone,
    VideoResult,
    WorkerError,
    WorkerReady,
    WorkerSpec,
    WorkerStatus,
    WorkerUsage,
)

SAMPLE = Sample(
    video_id="v", video_path=None, fps=2.0, num_frames=10, goal="build", steps=(), turns=(), initial_state={}
)
USAGE = WorkerUsage(tokens_per_s=90.0, cache_tokens=400, cache_mb=3.0, memory_mb=800.0)
SAMPLES = [replace(SAMPLE, video_id=f"v{length}", num_frames=length) for length in (10, 30, 20)]


class FakeBackend:
    """Workers that finish their videos one per poll, except the videos of which they die."""

    worker_kind = "fake"

    def __init__(
        self,
        *,
        num_slots: int,
        deaths: Mapping[str, int] | None = None,
        startup_deaths: int = 0,
        error: str = "",
        num_videos: int = 1,
    ) -> None:
        self.names = [f"w{number}" for number in range(1, num_slots + 1)]
        self.events = deque[tuple[str, WorkerEvent]]()
        self.started: list[str] = []
        self.dispatched: list[tuple[str, str]] = []
        self.is_shut_down = False
        self._deaths = dict(deaths or {})
        self._startup_deaths = startup_deaths
        self._error, self._num_videos = error, num_videos

    def slots(self) -> Mapping[str, WorkerSpec]:
        return dict.fromkeys(self.names, WorkerSpec(device="cpu"))

    def max_startup_failures(self, num_workers: int) -> int:
        return 3

    def start_worker(self, name: str, spec: WorkerSpec) -> int | None:
        self.started.append(name)
        self._startup_deaths -= 1
        dies = self._startup_deaths >= 0
        self.events.append(
            (name, WorkerExited(reason="no memory") if dies else WorkerReady(host="node", num_videos=self._num_videos))
        )
        return None

    def dispatch(self, name: str, sample: Sample) -> None:
        self.dispatched.append((name, sample.video_id))
        self._deaths[sample.video_id] = self._deaths.get(sample.video_id, 0) - 1
        if self._deaths[sample.video_id] >= 0:
            if self._error:
                self.events.append((name, WorkerError(reason=self._error, is_final=False)))
            self.events = deque(event for event in self.events if event[0] != name or isinstance(event[1], WorkerError))
            self.events.append((name, WorkerExited(reason="killed")))
            return
        if (name, WorkerExited(reason="killed")) in self.events:
            return  # the worker is dead already
        self.events.append((name, FramesDone(video_id=sample.video_id, num_done=4, usage=USAGE)))
        record = VideoRecord(video_id=sample.video_id, source="s", num_frames=sample.num_frames)
        self.events.append((name, VideoResult(record=record)))

    def poll(self, timeout_s: float) -> Iterator[tuple[str, WorkerEvent]]:
        yield self.events.popleft()

    def shutdown(self) -> None:
        self.is_shut_down = True


def run(backend: FakeBackend, samples: list[Sample] = SAMPLES) -> tuple[list[VideoRecord], list[WorkerStatus]]:
    """Run to the end; return the records and every status."""
    events = list(run_scheduler(samples, backend))
    records = [event.record for event in events if isinstance(event, VideoResult)]
    return records, [status for event in events if isinstance(event, tuple) for status in event]


def test_the_longest_video_is_dispatched_first() -> None:
    backend = FakeBackend(num_slots=1)
    records, statuses = run(backend)
    assert backend.dispatched == [("w1", "v30"), ("w1", "v20"), ("w1", "v10")]
    assert [record.video_id for record in records] == ["v30", "v20", "v10"]
    assert backend.is_shut_down
    assert {status.name for status in statuses} == {"w1", "w1 (node)"}
    assert max(status.total_done for status in statuses) == 30 + 20 + 4  # 4 frames of v10, then its result


def test_no_more_workers_are_started_than_videos_are_left() -> None:
    backend = FakeBackend(num_slots=8)
    records, _ = run(backend)
    assert backend.started == ["w1", "w2", "w3"]
    assert len(records) == 3


def test_a_video_whose_worker_dies_once_is_retried_before_the_rest_of_the_queue() -> None:
    backend = FakeBackend(num_slots=1, deaths={"v30": 1})
    records, _ = run(backend)
    assert [video_id for _, video_id in backend.dispatched] == ["v30", "v30", "v20", "v10"]
    assert backend.started == ["w1", "w1"]
    assert [record.error for record in records] == ["", "", ""]


def test_a_reported_error_is_the_reason_of_the_exit_that_follows_it() -> None:
    records, _ = run(FakeBackend(num_slots=1, deaths={"v10": 2}, error="KeyError: 7"), SAMPLES[:1])
    assert [record.error for record in records] == ["the fake that ran it died 2 times: KeyError: 7"]


def test_a_final_error_ends_the_run_and_shuts_the_workers_down() -> None:
    backend = FakeBackend(num_slots=1)
    backend.events.append(("w1", WorkerError(reason="heads are missing", is_final=True)))
    with pytest.raises(EngineError, match=r"^heads are missing$"):
        run(backend)
    assert backend.is_shut_down


def test_three_workers_that_die_before_they_are_ready_end_the_run() -> None:
    with pytest.raises(EngineError, match="no fake on cpu became ready, 3 died: no memory"):
        run(FakeBackend(num_slots=1, startup_deaths=3))
    records, _ = run(FakeBackend(num_slots=1, startup_deaths=2))
    assert len(records) == 3


def test_closing_the_run_shuts_the_workers_down() -> None:
    backend = FakeBackend(num_slots=2)
    with closing(run_scheduler(SAMPLES, backend)) as events, suppress(StopIteration):
        next(events)
    assert backend.is_shut_down


def test_videos_are_shared_out_evenly_and_up_to_the_size_of_a_batch() -> None:
    samples = [replace(SAMPLE, video_id=f"v{number}") for number in range(16)]
    backend = FakeBackend(num_slots=2, num_videos=16)
    assert len(run(backend, samples)[0]) == 16
    assert [name for name, _ in backend.dispatched[:8]] == ["w1"] * 8, "w1 is ready first and leaves w2 its half"
    assert max(len(status.videos) for status in run(FakeBackend(num_slots=1, num_videos=4), samples)[1]) == 4


def test_a_video_that_kills_its_worker_takes_none_of_its_fifteen_neighbours_along() -> None:
    samples = [replace(SAMPLE, video_id=f"v{number}") for number in range(16)]
    backend = FakeBackend(num_slots=1, deaths={"v7": 99}, num_videos=16)
    errors = {record.video_id: record.error for record in run(backend, samples)[0]}
    assert [video_id for video_id, error in errors.items() if error] == ["v7"]
    assert len(errors) == 16
    assert backend.started == ["w1"] * 4, "v7 kills one worker in company and two alone"

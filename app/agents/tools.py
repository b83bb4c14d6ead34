"""The tools of agents and programs: each method that is marked with ``tool``.

Its docstring tells a model when to use it. Results are plain values with links into the page; ``table.pack_reply``
limits their size.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from uuid import uuid4

import numpy as np
import pandas as pd
from pydantic import Field

from stepscope.app.agents import moments, reruns
from stepscope.app.agents.table import cut_page, tool
from stepscope.app.agents.workspace import Caller, Workspace, open_workspace
from stepscope.app.core.places import make_link
from stepscope.app.core.results import WORST_FIRST, VideoFilter, choose_rows, score_groups
from stepscope.app.core.run import Run
from stepscope.app.core.videos import read_moment as read_picture
from stepscope.app.exports.folder import gather_videos
from stepscope.app.exports.formats import EXPORT_FORMATS, write_export
from stepscope.app.publish.commands import open_source
from stepscope.app.publish.options import VideoFiles
from stepscope.app.publish.writer import estimate_bytes, write_player
from stepscope.app.review_store.actions import Action, Event
from stepscope.app.review_store.events import reference_event
from stepscope.app.review_store.review import Review, list_effective
from stepscope.app.review_store.store import read_review
from stepscope.app.window.reasons import BLIND
from stepscope.engine.plurals import format_count
from stepscope.engine.records import frame_at
from stepscope.engine.video.stills import encode_jpeg
from stepscope.eval.annotations.corrected_samples import check_fits
from stepscope.eval.annotations.corrections import Correction, Verdict, name_turns
from stepscope.eval.matching.turns import DEFAULT_ENCODER, TextEncoder
from stepscope.eval.metrics.definitions import NUM_FAILURES
from stepscope.eval.metrics.failures import failure_score
from stepscope.eval.metrics.matched_video import FAILURE_KINDS
from stepscope.eval.reports.run_list import filter_runs, list_runs
from stepscope.eval.reports.scoring import describe_scoring
from stepscope.eval.reports.search import describe_hits, read_moments
from stepscope.eval.reports.table_files import read_results
from stepscope.eval.reports.tables import tabulate_differences

PAGE: Final = 100
"""Mistakes of a page."""
NEAR_S: Final = 5.0
"""Seconds before and after a moment whose turns ``read_moment`` returns."""
MAX_PUBLISHED_BYTES: Final = 2 * 2**30
_PICTURE_SIDE: Final = 640
_MAX_SHOWN: Final = 40
_MAIN_SCORES: Final = ("num_failures", "F1", "dst_f1", "dst_joint_goal_accuracy")
_COLUMNS: Final = ["video_id", "time_s", "what", "failure", "text", "reference", "step", "probability"]
Result = dict[str, Any]
RunName = Annotated[str, Field(max_length=200, description="Name of a run, from list_runs.")]
VideoId = Annotated[str, Field(max_length=1000, description="Id of a video of the run.")]
Page = Annotated[int, Field(ge=1, le=10_000, description="Page of the list, from 1.")]
Seconds = Annotated[float, Field(ge=0, le=1e6, description="Time in the video, in seconds.")]
EventKey = Annotated[str, Field(max_length=64, description="Key of an event from read_moment.")]
Reason = Annotated[str, Field(max_length=2000, description="Why, in one or two sentences.")]
Query = Annotated[str, Field(max_length=500, description=(
    'Terms that all match: words or "a phrase" of the messages; failure:missed, failure:any, failure:root, cause:swap, '
    "step:S3, video:boat, is:message, class:order, near:0.05 (to the threshold), delay>2, latency>500, "
    "verdict:correct, tag:blurry; -term excludes."
))]  # fmt: skip


class Tools:
    """The tools of one caller. They raise ``ValueError`` with a sentence."""

    def __init__(self, workspace: Workspace, caller: Caller | None = None) -> None:
        self._workspace, self._caller = workspace, caller or Caller()
        self._batches, self._encode = workspace.batches, workspace.batches.jobs.encode
        self.shown = set[moments.Moment]()
        """The moments in results so far, to which an answer may link."""

    def check_may_write(self) -> None:
        """Raise ``ValueError`` unless the caller may change something."""
        if not self._caller.may_write:
            raise ValueError("sign in first: only a signed-in user, or the person at this machine, may change anything")

    @tool()
    def list_runs(
        self, query: Annotated[str, Field(max_length=500, description="Words of its name or settings, tag:NAME.")] = "",
        page: Page = 1,
    ) -> Result:  # fmt: skip
        """List the runs that can be read, the newest first, with their model, main scores and notes. Begin here."""
        folders = {name: self._batches.folder(name) for name in self._workspace.list_names()}
        shown, pages = cut_page(filter_runs(list_runs(folders), query), page, 20)
        runs = []
        for one in shown:
            scores = {name: one.scores.get(name) for name in _MAIN_SCORES}
            notes = {"tags": list(one.notes.tags), "note": one.notes.note, "problem": one.problem}
            runs.append({"run": one.name, "date": f"{one.date:%Y-%m-%d %H:%M}", "model": one.origin, **notes, **scores})
        return {"runs": runs, **pages}

    @tool()
    def read_run(self, run: RunName, page: Page = 1) -> Result:
        """Read the scores of a run with 95 % intervals and protocol, failures by kind, and the videos, worst first."""
        folder = self._workspace.find_run(run)
        (listed,), results = list_runs({run: folder.path}), read_results(folder.path)
        rows, pages = cut_page(choose_rows(results.rows, VideoFilter(WORST_FIRST[NUM_FAILURES])), page, 25)
        scored = [row for row in results.rows if not row["error"]]
        failures = {kind: np.nansum([row.get(failure_score(kind), 0.0) for row in scored]) for kind in FAILURE_KINDS}
        diagnosis, settings = results.diagnosis, folder.settings() or {}
        is_current = diagnosis is not None and not self._batches.is_blind and not diagnosis.explain_changed(settings)
        return {
            "run": run,
            "model": listed.origin,
            "settings": {name: text[:80] for name, text in list(listed.settings.items())[:_MAX_SHOWN]},
            "protocol": describe_scoring(results.metrics) if results.metrics else "not scored yet",
            "scores": {
                group.name: {row.metric.name: f"{row.score} {row.interval}".strip() for row in group.rows}
                for group in score_groups(results.metrics)
            },
            "failures": {kind: int(number) for kind, number in failures.items()},
            "roots": {name: one.number for name, one in diagnosis.classes.items()} if diagnosis and is_current else {},
            "videos": [[row["video_id"], row["num_failures"], row["error"]] for row in rows],
            **pages,
        }

    @tool()
    def list_mistakes(self, run: RunName, query: Query = "", page: Page = 1) -> Result:
        """List the mistakes of a run by video: time in seconds, sentence, cause, root or consequence.

        Use it to find out which mistakes there are, then read_moment for one of them.
        """
        table = self._search([run], f"failure:any {query}")
        mistakes = list(moments.list_mistakes(table))
        shown, pages = cut_page(mistakes, page, PAGE)
        for video, (time_s, *_) in shown:
            self._link(run, video, time_s)
        return {
            "found": f"{format_count(len(table), 'failure')} in {format_count(len(mistakes), 'mistake')}",
            "mistakes": {video: [own for _, own in group] for video, group in groupby(shown, key=lambda one: one[0])},
            "link": f"{self._caller.address}?saved={run}&video=VIDEO&t=SECONDS",
            **pages,
        }

    @tool()
    def search(self, query: Query, run: RunName = "", page: Page = 1) -> Result:
        """Search all moments of a run, or of all scored runs: messages, updates and states, right or wrong."""
        table = self._search([run] if run else self._workspace.list_names(), query)
        rows, pages = cut_page(table[[*_COLUMNS, "run"]].to_dict("records"), page, _MAX_SHOWN)
        for row in rows:
            self._link(row["run"], row["video_id"], row["time_s"])
        return {"found": describe_hits(table), "moments": rows, **pages}

    @tool()
    def read_moment(
        self, run: RunName, video: VideoId, time_s: Seconds,
        prompt: Annotated[bool, Field(description="Stream the video again for the prompt.")] = False,
    ) -> Result:  # fmt: skip
        """Read one moment of a video: picture, mistake and why, signals, states, texts around it, verdicts, link.

        Use it before you judge a mistake. Its events have the keys for add_verdict and propose_correction.
        """
        saved, sample = self._workspace.read_run(run, video)
        frame = min(frame_at(time_s, sample.fps), len(saved.outputs) - 1)
        output, review, table = saved.outputs[frame], self._read_reviews(video), self._read_table(run, video)
        at_s, distances = output.time_s, (table["time_s"] - output.time_s).abs()
        here = list(moments.list_mistakes(table[distances < 0.5 / sample.fps]))
        reasons, why_not = self._read_reasons(saved)
        picture = read_picture(sample, at_s)
        found: Result = {
            "time_s": at_s,
            "link": self._link(run, video, at_s),
            "goal": sample.goal,
            "steps": {step.id: step.name for step in sample.steps},
            "mistake": here[0][1][1] if here else "none",
            "why": list(dict.fromkeys(one["why"] for one in reasons if one["time_s"] == at_s)) or why_not,
            "signals": {
                "speak": output.speak_prob, "update": output.update_prob, **output.signals,
                "thresholds": dict(saved.known_thresholds),
            },
            "states": moments.compare_states(sample, output),
            "said": [f"{one.time_s:g} s: {one.response}" for one in saved.outputs[: frame + 1] if one.response][-4:],
            "user": [f"{turn.time_s:g} s: {turn.text}" for turn in sample.user_turns if turn.time_s <= at_s][-3:],
            "events": [
                moments.describe_event(sample, row, review) for row in table[distances <= NEAR_S].itertuples()
            ],
            "reference": [
                {"event": reference_event(video, name).key, "time_s": name.time_s, "role": name.role, "text": name.text}
                for name in name_turns(sample.turns)
                if abs(name.time_s - at_s) <= NEAR_S
            ],
            "tags": moments.list_tags(self._workspace.find_split(run)),
            "picture": None if picture is None else encode_jpeg(picture, max_side=_PICTURE_SIDE),
        }  # fmt: skip
        if prompt:
            with self._workspace.record(saved, sample) as recording:
                inspected = recording.inspect(frame)
            written = "".join(token.text for token in inspected.tokens if token.is_chosen)
            found |= {"prompt": inspected.prompt.splitlines()[:60], "written": written}
        return found

    @tool()
    def compare_runs(self, run: RunName, other: RunName) -> Result:
        """Compare two runs, A and B, of one split: paired differences of the scores with p-values, and the videos."""
        for name in (run, other):
            self._workspace.find_split(name)
        found = self._batches.compare(run, other, encode=self._encode)
        videos = [(one.count("only A"), one.count("only B"), one.video_id) for one in found.videos]
        videos = sorted((one for one in videos if one[0] or one[1]), key=lambda one: -one[0] - one[1])
        return {
            "columns": ["score", "A", "B", "B - A", "low", "high", "p", "corrected p"],
            "differences": [list(row.values()) for row in tabulate_differences(found.differences)],
            "turns wrong only in A, only in B": videos[:_MAX_SHOWN],
            "roots": "" if self._batches.is_blind else found.describe_roots(),
            "left_out": dict(list(found.left_out.items())[:10]),
            "not_compared": [found.times_problem, found.states_problem, found.roots_problem],
        }

    @tool()
    def explain(
        self, run: RunName, video: VideoId, time_s: Seconds | None = None,
        max_cost: Annotated[float, Field(ge=0, le=10, description="Most cost in runs of the video; 0 only reads.")] = 3,
    ) -> Result:  # fmt: skip
        """Explain which failures of a video are roots, and which would vanish with them; at a time also the evidence.

        The evidence is the pictures and texts on which the decision at the time rests, in log-odds. For results that
        the run folder lacks, the video is streamed again, which takes a while.
        """
        saved, sample = self._workspace.read_run(run, video)
        can_run = max_cost >= reruns.ROOTS_COST and not (self._workspace.model_problem or self._batches.is_blind)
        reasons, why_not = self._read_reasons(saved)
        if why_not and can_run:
            reasons, why_not = moments.list_reasons(reruns.diagnose(self._workspace, saved, sample))
        for one in reasons:
            self._link(run, video, one["time_s"])
        found: Result = {"failures": reasons[:_MAX_SHOWN], "not_explained": why_not}
        if time_s is not None and not self._batches.is_blind:
            frame = min(frame_at(time_s, sample.fps), len(saved.outputs) - 1)
            found["evidence"] = reruns.find_evidence(self._workspace, saved, sample, frame, can_run=can_run)
        return {**found, "link": self._link(run, video, time_s or 0.0)}

    @tool()
    def what_if(
        self, run: RunName, video: VideoId,
        changes: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=20, description=(
            'Each has a time in seconds and some of: message (text, null: none), updates (["S2->complete"], []: none), '
            'state ({"S2": "completed"}), refresh (true: the context begins again), ask (a question), freeze (until '
            'this time), swap (the pictures of both times), goal, steps (names), settings ({"speak_threshold": 0.4}).'
        ))],
    ) -> Result:  # fmt: skip
        """Stream a video again with changes: which turns differ, and which failures vanish or are new.

        Use it to test a suspicion, such as [{"time": 12, "updates": ["S2->complete"]}].
        """
        return reruns.change_run(self._workspace, *self._workspace.read_run(run, video), changes)

    @tool(writes=True)
    def add_verdict(
        self, run: RunName, video: VideoId, event: EventKey, verdict: Verdict, reason: Reason = "",
        tags: Annotated[tuple[str, ...], Field(max_length=20, description="Among those of read_moment.")] = (),
        confidence: Annotated[float, Field(ge=0, le=1)] | None = None,
    ) -> Result:  # fmt: skip
        """Store your verdict on an event under your name. It never counts as a person's; undo takes it back.

        Judge by the picture and the texts of read_moment; correct means that the model was right after all.
        """
        events = moments.list_events(self._workspace.find_sample(run, video), self._read_table(run, video))
        if event not in events:
            raise ValueError(f"{video[:80]} has no event {event!r}; read_moment names them")
        known = moments.list_tags(self._workspace.find_split(run))
        if known and (unknown := sorted({*tags} - {*known})):
            raise ValueError(f"there is no tag {unknown[0][:80]!r}; choose among {', '.join(known)}")
        return self._store(events[event], verdict=verdict, confidence=confidence, tags=tags, note=reason)

    @tool(writes=True)
    def propose_correction(
        self, run: RunName, video: VideoId, event: EventKey, kind: Literal["text", "time", "update", "delete"],
        text: Annotated[str, Field(max_length=500, description="Text, or update as S3->complete.")] | None = None,
        time_s: Seconds | None = None, reason: Reason = "",
    ) -> Result:  # fmt: skip
        """Propose to correct a turn of the reference, which stays until a person accepts it in the player."""
        sample, reviewer = self._workspace.find_sample(run, video), self._caller.reviewer
        turn = next((name for name in name_turns(sample.turns) if reference_event(video, name).key == event), None)
        if turn is None:
            raise ValueError(f"the reference of {video[:80]} has no turn {event!r}; read_moment names them")
        correction = Correction(reviewer=reviewer, kind=kind, turn=turn, text=text, time_s=time_s)
        check_fits(sample, correction, {turn.key})
        return self._store(reference_event(video, turn), correction=correction, note=reason)

    @tool(writes=True)
    def undo(
        self, write: Annotated[str, Field(max_length=16, description="Id that a writing tool returned.")]
    ) -> Result:
        """Take back one of your own writes, with all that it stored."""
        store, reviewer = self._workspace.store, self._caller.reviewer
        own = [one for one in list_effective(store.read(only=reviewer)) if one.action_id.startswith(f"{write}-")]
        if not own:
            raise ValueError(f"{reviewer} has no write {write!r} to undo")
        store.append_all(
            Action(kind="undo", reviewer=reviewer, video_id=one.video_id, target=one.action_id) for one in own
        )
        return {"undone": len(own)}

    @tool(writes=True)
    def publish(
        self, run: RunName, videos: Annotated[tuple[VideoId, ...], Field(max_length=200)] = (), pictures: bool = True
    ) -> Result:
        """Write a run, or some of its videos, as a folder beside the runs that plays on any web server. Ask first."""
        folder, path = self._workspace.find_run(run), self._workspace.find_split(run).path
        source = open_source(folder, path, TextEncoder(name=DEFAULT_ENCODER, encode=self._encode))
        source = replace(source.choose(videos) if videos else source, name=run)
        files: VideoFiles = "copy" if pictures else "none"
        if (size := estimate_bytes([source], files)) > MAX_PUBLISHED_BYTES:
            raise ValueError(f"it would have about {size / 1e9:.1f} GB; choose fewer videos, or no pictures")
        out = self._batches.runs / ".published" / run
        out.parent.mkdir(parents=True, exist_ok=True)
        *_, done = write_player(out, source, files=files)
        problems = dict(list(done.problems.items())[:10])
        return {"folder": self._describe(out), "videos": done.num_videos, "problems": problems}

    @tool(writes=True)
    def export(
        self, run: RunName, video: VideoId = "",
        file_format: Annotated[str, Field(max_length=40, description=f"One of {', '.join(EXPORT_FORMATS)}.")] = "json",
    ) -> Result:  # fmt: skip
        """Write predictions, references, states, verdicts and corrections as files beside the runs. Ask first."""
        if file_format not in EXPORT_FORMATS:
            raise ValueError(f"there is no format {file_format!r}; choose one of {', '.join(EXPORT_FORMATS)}")
        split = self._workspace.find_split(run)
        samples = [self._workspace.find_sample(run, video)] if video else split.samples
        videos = gather_videos(samples, review=self._read_reviews(None), run=self._workspace.find_run(run))
        out = self._batches.runs / ".exports" / f"{run}-{file_format}"
        write_export(out, videos, file_format=file_format, split=split.path.stem)
        files = sorted(path for path in out.rglob("*") if path.is_file())
        return {"folder": self._describe(out), "bytes": {path.name: path.stat().st_size for path in files[:PAGE]}}

    def _link(self, run: str, video: str, time_s: float) -> str:
        """Return the address of a moment in the page, which is then one of the shown moments."""
        self.shown.add(moments.Moment.at(run, video, time_s))
        return f"{self._caller.address}{make_link({'saved': run, 'video': video, 't': f'{time_s:g}'})}"

    def _search(self, names: Sequence[str], query: str) -> pd.DataFrame:
        return self._batches.search([name for name in names if self._workspace.find_run(name)], query)

    def _read_table(self, run: str, video: str) -> pd.DataFrame:
        """Return the rows of a video in the table of moments."""
        table = read_moments(self._workspace.find_run(run).path)
        return table[table["video_id"] == video]

    def _read_reasons(self, saved: Run) -> tuple[list[dict[str, Any]], str]:
        """Return the reasons of a run; in blind mode of the failures that the caller has judged, with their roots."""
        reasons, why_not = moments.list_reasons(saved)
        if not self._batches.is_blind:
            return reasons, why_not
        found = self._read_reviews(saved.clip.video_id).events
        judged = {one.event.time_s for one in found if any(said.verdict for said in one.opinions)}
        return [one for one in reasons if {one["time_s"], one["root_s"]} <= judged], why_not or BLIND

    def _read_reviews(self, video: str | None) -> Review:
        """Return the reviews that the caller may see: in blind mode their own."""
        only = self._caller.reviewer if self._batches.is_blind else None
        return read_review(self._workspace.store, video_id=video, only=only)

    def _store(self, event: Event, **parts: Any) -> Result:
        write, reviewer = uuid4().hex[:16], self._caller.reviewer
        self._workspace.store.append_all(moments.make_judgement(event, reviewer=reviewer, write=write, **parts))
        return {"write": write, "reviewer": reviewer}

    def _describe(self, path: Path) -> str:
        """Return the path of a folder; on a page of several people, that from the folder of runs on."""
        return str(path if self._batches.takes_paths else path.relative_to(self._batches.runs))


@contextmanager
def open_runs(folder: str | Path = "runs", *, reviews: str = "", caller: Caller | None = None) -> Iterator[Tools]:
    """Yield the tools for the person at this machine; see ``open_workspace``."""
    with open_workspace(Path(folder), reviews) as workspace:
        yield Tools(workspace, caller)

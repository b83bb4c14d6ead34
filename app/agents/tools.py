"""The tools: what agents and programs do with runs. Each method that is marked with ``tool`` is one.

Their docstrings tell a model when to use them. Results are plain values, which ``table.pack_reply`` bounds, with links
into the page. They are made of what the page and the command line use.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import Field

from stepscope.app.agents import moments
from stepscope.app.agents.table import Picture, cut_page, tool
from stepscope.app.agents.workspace import Caller, Workspace, open_workspace
from stepscope.app.core.results import WORST_FIRST, VideoFilter, choose_rows, score_groups
from stepscope.app.core.run import Kept, Run, analyze_run
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
from stepscope.engine.control.branch_files import make_branch
from stepscope.engine.imports import import_uncollected
from stepscope.engine.io.files import to_json
from stepscope.engine.plurals import format_count
from stepscope.engine.records import FrameOutput, frame_at
from stepscope.engine.video.stills import encode_jpeg
from stepscope.eval.annotations.corrected_samples import check_fits
from stepscope.eval.annotations.corrections import Correction, Verdict, name_turns
from stepscope.eval.data.samples import Sample
from stepscope.eval.matching.turns import DEFAULT_ENCODER, TextEncoder
from stepscope.eval.metrics.definitions import NUM_FAILURES
from stepscope.eval.metrics.failures import failure_score
from stepscope.eval.metrics.matched_video import FAILURE_KINDS
from stepscope.eval.reports.run_list import filter_runs, list_runs
from stepscope.eval.reports.scoring import describe_scoring
from stepscope.eval.reports.search import describe_hits, read_moments, search_folders
from stepscope.eval.reports.table_files import read_results
from stepscope.eval.reports.tables import tabulate_differences
from stepscope.eval.runs.roots import DiagnosedVideo, RunDiagnosis

PAGE: Final = 100
"""Mistakes of a page; of what is longer there are fewer."""
NEAR_S: Final = 5.0
"""Seconds before and after a moment whose turns ``read_moment`` returns."""
MAX_PUBLISHED_BYTES: Final = 2 * 2**30
ROOTS_COST: Final = 2.3
"""Estimated cost of the roots of a video, in runs of it."""
_PICTURE_SIDE: Final = 640
_MAX_CHANGES_CHARS: Final = 4_000
_CHANGEABLE: Final = {"speak_threshold", "update_threshold", "context_strategy", "system_prompt"}
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
        folders = {name: self._workspace.batches.folder(name) for name in self._workspace.list_names()}
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
        diagnosis = results.diagnosis
        is_current = diagnosis is not None and not diagnosis.explain_changed(folder.settings() or {})
        return {
            "run": run,
            "model": listed.origin,
            "settings": {name: text[:80] for name, text in list(listed.settings.items())[:_MAX_SHOWN]},
            "protocol": describe_scoring(results.metrics) if results.metrics else "not scored yet",
            "scores": {
                group.name: {row.metric.name: f"{row.score} {row.interval}".strip() for row in group.rows}
                for group in score_groups(results.metrics)
            },
            "failures": {
                kind: int(np.nansum([row.get(failure_score(kind), 0.0) for row in scored])) for kind in FAILURE_KINDS
            },
            "roots": {name: one.number for name, one in diagnosis.classes.items()} if diagnosis and is_current else {},
            "videos": [[row["video_id"], row["num_failures"], row["error"]] for row in rows],
            **pages,
        }

    @tool()
    def list_mistakes(self, run: RunName, query: Query = "", page: Page = 1) -> Result:
        """List the mistakes of a run by video: time in seconds, sentence, cause, root or consequence.

        Use it to find out what goes wrong, then read_moment for one of them.
        """
        found = self._search([run], f"failure:any {query}")
        mistakes = list(moments.list_mistakes(found.itertuples()))
        shown, pages = cut_page(mistakes, page, PAGE)
        by_video = {
            video_id: [[one.time_s, one.sentence, *filter(None, (one.cause, one.origin))] for one in group]
            for video_id, group in groupby(shown, key=lambda one: one.video_id)
        }
        said = f"{format_count(len(found), 'failure')} in {format_count(len(mistakes), 'mistake')}"
        link = f"{self._caller.address}?saved={run}&video=VIDEO&t=SECONDS"
        return {"found": said, "mistakes": by_video, "link": link, **pages}

    @tool()
    def search(self, query: Query, run: RunName = "", page: Page = 1) -> Result:
        """Search all moments of a run, or of all scored runs: messages, updates and states, right or wrong."""
        folder = self._workspace.batches.folder
        scored = [name for name in self._workspace.list_names() if (folder(name) / "moments.csv").is_file()]
        found = self._search([run] if run else scored, query)
        rows, pages = cut_page(found[[*_COLUMNS, *(() if run else ["run"])]].to_dict("records"), page, _MAX_SHOWN)
        return {"found": describe_hits(found), "moments": rows, **pages}

    @tool(runs_model=True)
    def read_moment(
        self, run: RunName, video: VideoId, time_s: Seconds,
        prompt: Annotated[bool, Field(description="Stream the video again for the prompt.")] = False,
    ) -> Result:  # fmt: skip
        """Read one moment of a video: picture, mistake and why, signals, states, texts around it, verdicts, link.

        Use it before you judge a mistake. Its events have the keys for add_verdict and propose_correction.
        """
        saved, sample = self._workspace.read_run(run, video), self._workspace.find_sample(run, video)
        frame = min(frame_at(time_s, sample.fps), len(saved.outputs) - 1)
        output, review = saved.outputs[frame], self._read_reviews(video)
        at_s, rows = output.time_s, [row for row in self._read_video(run, video) if abs(row.time_s - time_s) <= NEAR_S]
        here = [row for row in rows if abs(row.time_s - at_s) < 0.5 / sample.fps]
        reasons, why_not = moments.list_reasons(saved)
        signals = {"speak": output.speak_prob, "update": output.update_prob, **output.signals}
        picture = read_picture(sample, at_s)
        found: Result = {
            "time_s": at_s,
            "link": self._workspace.make_link(self._caller, saved, at_s),
            "goal": sample.goal,
            "steps": {step.id: step.name for step in sample.steps},
            "mistake": next((one.sentence for one in moments.list_mistakes(here)), "none"),
            "why": list(dict.fromkeys(one["why"] for one in reasons if one["time_s"] == at_s)) or why_not,
            "signals": {**signals, "thresholds": dict(saved.known_thresholds)},
            "states": moments.compare_states(sample, output),
            "said": [f"{one.time_s:g} s: {one.response}" for one in saved.outputs[: frame + 1] if one.response][-4:],
            "user": [f"{turn.time_s:g} s: {turn.text}" for turn in sample.user_turns if turn.time_s <= at_s][-3:],
            "events": [moments.describe_event(sample, row, review) for row in rows],
            "reference": [
                {"event": reference_event(video, name).key, "time_s": name.time_s, "role": name.role, "text": name.text}
                for name in name_turns(sample.turns)
                if abs(name.time_s - at_s) <= NEAR_S
            ],
            "tags": moments.list_tags(self._workspace.find_split(run)),
            "picture": None if picture is None else Picture(encode_jpeg(picture, max_side=_PICTURE_SIDE)),
        }
        if prompt:
            with self._workspace.record(saved) as recording:
                inspected = recording.inspect(frame)
            written = "".join(token.text for token in inspected.tokens if token.is_chosen)
            found |= {"prompt": inspected.prompt.splitlines()[:60], "written": written}
        return found

    @tool(runs_model=True)
    def compare_runs(self, run: RunName, other: RunName) -> Result:
        """Compare two runs, A and B, of one split: paired differences of the scores with p-values, and the videos."""
        for name in (run, other):
            self._workspace.find_split(name)
        found = self._workspace.batches.compare(run, other, encode=self._workspace.encode)
        videos = [(one.count("only A"), one.count("only B"), one.video_id) for one in found.videos]
        videos = sorted((one for one in videos if one[0] or one[1]), key=lambda one: -one[0] - one[1])
        return {
            "columns": ["score", "A", "B", "B - A", "low", "high", "p", "corrected p"],
            "differences": [list(row.values()) for row in tabulate_differences(found.differences)],
            "turns wrong only in A, only in B": [list(one) for one in videos[:_MAX_SHOWN]],
            "roots": found.describe_roots(),
            "left_out": dict(list(found.left_out.items())[:10]),
            "not_compared": [found.times_problem, found.states_problem, found.roots_problem],
        }

    @tool(runs_model=True)
    def explain(
        self, run: RunName, video: VideoId, time_s: Seconds | None = None,
        max_cost: Annotated[float, Field(ge=0, le=10, description="Most cost in runs of the video; 0 only reads.")] = 3,
    ) -> Result:  # fmt: skip
        """Explain which failures of a video are roots, and which would vanish with them; at a time also the evidence.

        The evidence is the pictures and texts on which the decision at the time rests, in log-odds. What the run folder
        does not have is found by streaming the video again, which takes a while.
        """
        saved, sample = self._workspace.read_run(run, video), self._workspace.find_sample(run, video)
        reasons, why_not = moments.list_reasons(saved)
        if why_not and max_cost >= ROOTS_COST:
            reasons, why_not = moments.list_reasons(self._diagnose(saved, sample))
        found: Result = {"failures": reasons[:_MAX_SHOWN], "not_explained": why_not}
        if time_s is not None:
            frame = min(frame_at(time_s, sample.fps), len(saved.outputs) - 1)
            found["evidence"] = self._find_evidence(saved, sample, frame, can_run=max_cost >= ROOTS_COST)
        return {**found, "link": self._workspace.make_link(self._caller, saved, time_s or 0.0)}

    @tool(runs_model=True)
    def what_if(
        self, run: RunName, video: VideoId,
        changes: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=20, description=(
            'Each has a time in seconds and some of: message (text, null: none), updates (["S2->complete"], []: none), '
            'state ({"S2": "completed"}), refresh (true: the context begins again), ask (a question), freeze (until '
            'this time), swap (the pictures of both times), goal, steps (names), settings ({"speak_threshold": 0.4}).'
        ))],
    ) -> Result:  # fmt: skip
        """Stream a video again with changes: which turns differ, and which failures vanish or are new.

        Use it to test what you suspect, such as [{"time": 12, "updates": ["S2->complete"]}].
        """
        settings = {name for one in changes if isinstance(one.get("settings"), dict) for name in one["settings"]}
        if len(to_json(changes)) > _MAX_CHANGES_CHARS or not settings <= _CHANGEABLE:  # others may take any time
            raise ValueError(
                f"changes have at most {_MAX_CHANGES_CHARS} characters; of settings {', '.join(sorted(_CHANGEABLE))}"
            )
        saved = self._workspace.read_run(run, video)
        with self._workspace.record(saved) as recording:
            plain, task = recording.outputs, recording.task
            of_run: dict[str, Any] = {"config": recording.config, "num_frames": len(plain), "outputs": plain}
            branch = recording.branch(make_branch(changes, task=task, **of_run))
            outputs = list(branch.run())
        pairs = list(zip(plain, outputs, strict=True))
        turns = [(a.time_s, moments.describe_turn(a), moments.describe_turn(b)) for a, b in pairs]
        differing = [[time_s, "was", was, "is", now] for time_s, was, now in turns if was != now]
        found: Result = {
            "frames with another turn": len(differing),
            "frames with another state": sum(a.dst_state != b.dst_state for a, b in pairs),
            "turns": differing[:_MAX_SHOWN],
        }
        if branch.task.steps == task.steps:
            before, after = (self._name_failures(saved, each) for each in (plain, outputs))
            found["failures before and after"] = [len(before), len(after)]
            found["vanished"] = [name for name in before if name not in after][:_MAX_SHOWN]
            found["new"] = [name for name in after if name not in before][:_MAX_SHOWN]
        return found

    @tool(writes=True)
    def add_verdict(
        self, run: RunName, video: VideoId, event: EventKey, verdict: Verdict, reason: Reason = "",
        tags: Annotated[tuple[str, ...], Field(max_length=20, description="Among those of read_moment.")] = (),
        confidence: Annotated[float, Field(ge=0, le=1)] | None = None,
    ) -> Result:  # fmt: skip
        """Store your verdict on an event under your name. It never counts as a person's; undo takes it back.

        Judge by the picture and the texts of read_moment; correct means that the model was right after all.
        """
        events = moments.list_events(self._workspace.find_sample(run, video), self._read_video(run, video))
        if event not in events:
            raise ValueError(f"{video[:80]} has no event {event!r}; read_moment names them")
        known = moments.list_tags(self._workspace.find_split(run))
        if known and (unknown := sorted({*tags} - {*known})):
            raise ValueError(f"there is no tag {unknown[0][:80]!r}; choose among {', '.join(known)}")
        given = {"verdict": verdict, "confidence": confidence, "tags": tags, "note": reason}
        return self._store(events[event], **given)

    @tool(writes=True)
    def propose_correction(
        self, run: RunName, video: VideoId, event: EventKey, kind: Literal["text", "time", "update", "delete"],
        text: Annotated[str, Field(max_length=500, description="Text, or update as S3->complete.")] | None = None,
        time_s: Seconds | None = None, reason: Reason = "",
    ) -> Result:  # fmt: skip
        """Propose to correct a turn of the reference: a note under your name. People decide; the reference stays."""
        sample, reviewer = self._workspace.find_sample(run, video), self._caller.reviewer
        turn = next((name for name in name_turns(sample.turns) if reference_event(video, name).key == event), None)
        if turn is None:
            raise ValueError(f"the reference of {video[:80]} has no turn {event!r}; read_moment names them")
        correction = Correction(reviewer=reviewer, kind=kind, turn=turn, text=text, time_s=time_s)
        check_fits(sample, correction, {turn.key})
        new = "delete it" if kind == "delete" else f"{kind} {text if time_s is None else f'{time_s:g} s'}"
        return self._store(reference_event(video, turn), note=f"Proposed correction: {new}. {reason}".strip())

    @tool(writes=True)
    def undo(
        self, write: Annotated[str, Field(max_length=16, description="Id that a writing tool returned.")]
    ) -> Result:
        """Take back one of your own writes, with all that it stored."""
        store, reviewer = self._workspace.store, self._caller.reviewer
        own = [one for one in list_effective(store.read(only=reviewer)) if moments.find_write(one) == write]
        if not own:
            raise ValueError(f"{reviewer} has no write {write!r} to undo")
        store.append_all(
            Action(kind="undo", reviewer=reviewer, video_id=one.video_id, target=one.action_id) for one in own
        )
        return {"undone": len(own)}

    @tool(writes=True, runs_model=True)
    def publish(
        self, run: RunName, videos: Annotated[tuple[VideoId, ...], Field(max_length=200)] = (), pictures: bool = True
    ) -> Result:
        """Write a run, or some of its videos, as a folder beside the runs that plays on any web server. Ask first."""
        folder, path = self._workspace.find_run(run), self._workspace.find_split(run).path
        encoder, runs = TextEncoder(name=DEFAULT_ENCODER, encode=self._workspace.encode), self._workspace.batches.runs
        source = replace(open_source(folder, path, encoder), name=run)
        source = source.choose(videos) if videos else source
        files: VideoFiles = "copy" if pictures else "none"
        if (size := estimate_bytes([source], files)) > MAX_PUBLISHED_BYTES:
            raise ValueError(f"it would have about {size / 1e9:.1f} GB; choose fewer videos, or no pictures")
        out = runs / ".published" / run
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
        out = self._workspace.batches.runs / ".exports" / f"{run}-{file_format}"
        write_export(out, videos, file_format=file_format, split=split.path.stem)
        files = sorted(path for path in out.rglob("*") if path.is_file())
        return {"folder": self._describe(out), "bytes": {path.name: path.stat().st_size for path in files[:PAGE]}}

    def _search(self, names: Sequence[str], query: str) -> Any:
        if not names:
            raise ValueError("no run is scored yet")
        folders = {name: self._workspace.find_run(name).path for name in names}
        return search_folders(folders, query, marks=self._workspace.batches.marks())

    def _read_video(self, run: str, video: str) -> list[Any]:
        """Return the rows of ``moments.csv`` of a video."""
        found = read_moments(self._workspace.find_run(run).path)
        return list(found[found["video_id"] == video].itertuples())

    def _read_reviews(self, video: str | None) -> Review:
        """Return the reviews that the caller may see: in blind mode their own."""
        only = self._caller.reviewer if self._workspace.is_blind else None
        return read_review(self._workspace.store, video_id=video, only=only)

    def _diagnose(self, run: Run, sample: Sample) -> Run:
        """Return a run with the roots of its failures, which no file keeps."""
        explain = import_uncollected("stepscope.eval.diagnosis.recordings").explain
        of_scores = {"encode": self._workspace.encode, "dataset": run.scoring.dataset}
        with self._workspace.record(run) as recording:
            (found,) = explain(recording, sample, experiments=(), **of_scores).videos
        named = {name: getattr(found, name) for name in ("video_id", "source", "roots", "failures")}
        return replace(run, kept=Kept(digest=run.digest, diagnosis=RunDiagnosis(), video=DiagnosedVideo(**named)))

    def _find_evidence(self, run: Run, sample: Sample, frame: int, *, can_run: bool) -> Result:
        kept = run.kept.evidence if run.kept is not None else ()
        evidence = next((one for one in kept if one.frame_index == frame), None)
        if evidence is None and not can_run:
            return {"missing": f"the run folder has none; max_cost {ROOTS_COST:g} computes it"}
        if evidence is None:
            explain_frame = import_uncollected("stepscope.eval.diagnosis.evidence").explain_frame
            with self._workspace.record(run) as recording:
                evidence = explain_frame(recording, sample, frame)
        frames = sorted(evidence.frames, key=lambda one: -abs(one.log_odds or 0.0))
        texts = sorted(evidence.texts, key=lambda one: -abs(one.log_odds))
        return {
            "decision": evidence.target if evidence.contrast is None else asdict(evidence.contrast),
            "log_odds": evidence.log_odds,
            "with random weights": evidence.random_log_odds,
            "kept by the last pictures": evidence.fewest_last_frames,
            "pictures": [[one.frame_index / sample.fps, one.log_odds] for one in frames[:5]],
            "texts": [[one.change, one.text, one.log_odds] for one in texts[:5]],
        }

    def _name_failures(self, run: Run, outputs: Sequence[FrameOutput]) -> list[str]:
        analysis = analyze_run(replace(run, outputs=tuple(outputs)), self._workspace.encode)
        failures = () if analysis is None else analysis.judged.failures
        return [f"{one.frame_index / run.config.fps:g} s {' '.join((one.kind, *one.step_ids))}" for one in failures]

    def _store(self, event: Event, **parts: Any) -> Result:
        actions = moments.make_judgement(event, reviewer=self._caller.reviewer, **parts)
        self._workspace.store.append_all(actions)
        return {"write": moments.find_write(actions[0]), "reviewer": self._caller.reviewer}

    def _describe(self, path: Path) -> str:
        """Return the path of a folder; on a page of several people, that from the folder of runs on."""
        batches = self._workspace.batches
        return str(path if batches.takes_paths else path.relative_to(batches.runs))


@contextmanager
def open_runs(folder: str | Path = "runs", *, reviews: str = "", caller: Caller | None = None) -> Iterator[Tools]:
    """Yield the tools for the person at this machine; see ``open_workspace``."""
    with open_workspace(Path(folder), reviews) as workspace:
        yield Tools(workspace, caller)

"""Saved runs that are streamed again for the tools: diagnosis, evidence and changes. No file keeps the results."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from stepscope.app.agents.workspace import Workspace
from stepscope.app.core.run import Kept, Run, analyze_run
from stepscope.engine.control.branch_files import make_branch
from stepscope.engine.imports import import_uncollected
from stepscope.engine.io.files import to_json
from stepscope.engine.records import FrameOutput
from stepscope.eval.data.samples import Sample
from stepscope.eval.runs.roots import DiagnosedVideo, RunDiagnosis

ROOTS_COST: Final = 2.3
"""Estimated cost of the roots of a video, in runs of it."""
MAX_TURNS: Final = 40
_MAX_CHANGES_CHARS: Final = 4_000
_CHANGEABLE: Final = {"speak_threshold", "update_threshold", "context_strategy", "system_prompt"}


def diagnose(workspace: Workspace, run: Run, sample: Sample) -> Run:
    """Return a run with the roots of its failures."""
    explain = import_uncollected("stepscope.eval.diagnosis.recordings").explain
    with workspace.record(run, sample) as recording:
        of_scores = {"encode": workspace.batches.jobs.encode, "dataset": run.scoring.dataset}
        (found,) = explain(recording, sample, experiments=(), **of_scores).videos
    named = {name: getattr(found, name) for name in ("video_id", "source", "roots", "failures")}
    return replace(run, kept=Kept(digest=run.digest, diagnosis=RunDiagnosis(), video=DiagnosedVideo(**named)))


def find_evidence(workspace: Workspace, run: Run, sample: Sample, frame: int, *, can_run: bool) -> dict[str, Any]:
    """Return the evidence for the decision at a frame: that of the run folder, or computed if that is allowed."""
    kept = run.kept.evidence if run.kept is not None else ()
    evidence = next((one for one in kept if one.frame_index == frame), None)
    if evidence is None and not can_run:
        return {"missing": f"the run folder has none; max_cost {ROOTS_COST:g} computes it"}
    if evidence is None:
        explain_frame = import_uncollected("stepscope.eval.diagnosis.evidence").explain_frame
        with workspace.record(run, sample) as recording:
            *_, evidence = explain_frame(recording, sample, frame)
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


def change_run(workspace: Workspace, run: Run, sample: Sample, changes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the turns and failures that differ with changes. Raises ``ValueError`` for changes that do not fit."""
    settings = {name for one in changes if isinstance(one.get("settings"), dict) for name in one["settings"]}
    if len(to_json(changes)) > _MAX_CHANGES_CHARS or not settings <= _CHANGEABLE:  # others may take any time
        raise ValueError(
            f"changes have at most {_MAX_CHANGES_CHARS} characters; of settings {', '.join(sorted(_CHANGEABLE))}"
        )
    with workspace.record(run, sample) as recording:
        plain, task, config = recording.outputs, recording.task, recording.config
        changed = make_branch(changes, task=task, config=config, num_frames=len(plain))
        branch = recording.branch(changed)
        outputs = list(branch.run())
    pairs = list(zip(plain, outputs, strict=True))
    turns = [(a.time_s, "was", _describe_turn(a), "is", _describe_turn(b)) for a, b in pairs]
    turns = [turn for turn in turns if turn[2] != turn[4]]
    found = {
        "frames with another turn": len(turns),
        "frames with another state": sum(a.dst_state != b.dst_state for a, b in pairs),
        "turns": turns[:MAX_TURNS],
    }
    if branch.task.steps == task.steps:
        before, after = (_name_failures(workspace, run, each) for each in (plain, outputs))
        found["failures before and after"] = [len(before), len(after)]
        found["vanished"] = [name for name in before if name not in after][:MAX_TURNS]
        found["new"] = [name for name in after if name not in before][:MAX_TURNS]
    return found


def _describe_turn(output: FrameOutput) -> str:
    return "; ".join((*output.updates, output.response or "silent"))


def _name_failures(workspace: Workspace, run: Run, outputs: Sequence[FrameOutput]) -> list[str]:
    analysis = analyze_run(replace(run, outputs=tuple(outputs)), workspace.batches.jobs.encode)
    failures = () if analysis is None else analysis.judged.failures
    return [f"{one.frame_index / run.config.fps:g} s {' '.join((one.kind, *one.step_ids))}" for one in failures]

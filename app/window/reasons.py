"""Why the failures of a run happened, as sentences from its diagnosis, for the player's script; see ``eval.diagnosis``.

No sentence says more than ``diagnosis.json`` holds: a root that is not the first is known with the earlier roots
corrected, and what prevents a root is known with the reference as history.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from stepscope.app.core.run import Run
from stepscope.app.formatting import as_sentence, format_clock
from stepscope.engine.dialogue import parse_update
from stepscope.engine.evidence.records import Evidence
from stepscope.engine.plurals import format_count
from stepscope.engine.records import FrameOutput, frame_at
from stepscope.eval.data.samples import Sample
from stepscope.eval.metrics.matched_video import Failure
from stepscope.eval.reports.mistakes import name_steps, quote
from stepscope.eval.runs.roots import DiagnosedVideo, Root, RunDiagnosis

Packed = dict[str, Any]
_UPDATE_KINDS: Final = {"wrong update", "missed update", "wrong state"}
_VERBS: Final = {
    ("start", True): "started {}",
    ("complete", True): "completed {}",
    ("start", False): "not started {}",
    ("complete", False): "kept {} open",
}
_PLACEBO: Final = " (placebo)"
_CONDITIONS: Final = {
    "a context that is never cut": "the context were never cut",
    "ids in listing order": "the prompt numbered the steps in the order in which it lists them",
    "steps in the order done": "the steps were listed in the order done",
    "other words for the goal": "the goal had other words",
    "another system prompt": "the prompt had another first line",
    "thresholds -0.2": "both thresholds were lower by 0.2",
    "thresholds +0.2": "both thresholds were higher by 0.2",
    "twice the frame rate": "it saw twice the frames",
    "frames half an interval later": "its frames were half an interval later",
}
"""The condition of each experiment of ``eval.diagnosis.experiments`` in a sentence."""
_NOT_EXPLAINED: Final = "Not explained yet: experiments can find out why."
BLIND: Final = "Blind: the reason is shown after your verdict on the first mistake, too."
_NO_EARLIER: Final = "its picture is the first, so no earlier one can take its place"
_NO_PROOF: Final = (
    "It does not prove what the model saw: recency, the picture difference and random weights may rank the pictures "
    "the same way, without any understanding."
)


def pack_reasons(run: Run, failures: Sequence[Failure], keys: Sequence[str] = ()) -> tuple[Packed, list[Packed]]:
    """Return the roots of a run with their sentences, and for each failure its root.

    ``keys`` are those of the failures: where ``Kept.shown`` lacks one, or its first mistake, its reason is left out.
    Without a current diagnosis they are the sentence that says why there is none, and nothing per failure.
    """
    nothing = [Packed() for _ in failures]
    if not failures or not run.is_finished:
        return {}, nothing
    video, missing = _find_video(run, failures)
    if video is None or run.kept is None or run.kept.diagnosis is None or run.reference is None:
        return {"why_not": missing}, nothing
    names = name_steps(run.task)
    shown = run.kept.shown
    is_judged = [shown is None or key in shown for key in keys or [""] * len(failures)]
    judged = [found if is_one else None for found, is_one in zip(video.failures, is_judged, strict=True)]
    own = {found.root for found in judged if found is not None and not found.is_consequence}
    numbers = [number for number in range(len(video.roots)) if shown is None or number in own]
    packed = [_pack_root(run, names, video, number, run.kept.diagnosis) for number in numbers]
    of_failures = [
        {"root": numbers.index(found.root), "is_consequence": found.is_consequence}
        if found is not None and found.root in numbers
        else Packed()
        for found in judged
    ]
    return {"roots": packed, **({} if shown is None else {"is_blinded": True, "why_not": BLIND})}, of_failures


def pack_evidence(run: Run) -> list[Packed]:
    """Return the evidence for decisions of a run: values by picture, beside those of each baseline."""
    names = name_steps(run.task)
    return [_pack_decision(evidence, names) for evidence in (run.kept.evidence if run.is_kept and run.kept else ())]


def explain_unrepeatable(run: Run, model_digest: str | None = None) -> str:
    """Return why a run cannot be made again, by the model of the page if its digest is given; empty if it can."""
    if run.settings.get("recorded") is not None or "imported" in run.settings or not run.model_digest:
        made = "imported" if "imported" in run.settings else "recorded"
        return f"this run was {made}, so its model cannot be run again here"
    if model_digest not in (None, run.model_digest):
        return "this run was made with a different checkpoint, which cannot be run again here"
    return ""


def _find_video(run: Run, failures: Sequence[Failure]) -> tuple[DiagnosedVideo | None, str]:
    """Return the diagnosis of a run, or None and a sentence with the reason."""
    if run.branch is not None:
        return None, ""
    if why := explain_unrepeatable(run):
        return None, f"Why is not known: {why}."
    if run.kept is None or not run.is_kept or not (run.name or run.kept_as):
        return None, _NOT_EXPLAINED
    video = run.kept.video
    if video is None:
        return None, as_sentence(run.kept.problem or _NOT_EXPLAINED)
    stale = video.explain_stale(run.reference) if run.reference is not None else ""
    traced = [(found.kind, found.time_s) for found in video.failures]
    if not stale and traced != [(failure.kind, failure.frame_index / run.config.fps) for failure in failures]:
        stale = "it is of other failures"
    if stale:
        return None, as_sentence(f"Its diagnosis is out of date, since {stale}: explain it again")
    return video, ""


def _pack_root(
    run: Run, names: Mapping[str, str], video: DiagnosedVideo, number: int, diagnosis: RunDiagnosis
) -> Packed:
    root = video.roots[number]
    is_hidden = not any(found.root == number and not found.is_consequence for found in video.failures)
    earlier = "" if number == 0 else "the earlier first mistake" if number == 1 else "the earlier first mistakes"
    output = None if is_hidden else next((one for one in run.outputs if one.frame_index == root.frame), None)
    assert run.reference is not None
    turn = _describe_correction(root, run.reference, output, names)
    own = _describe_root(root, earlier, turn if is_hidden else "")
    beside = f", with {earlier} corrected too" if earlier else ""
    vanish = "this failure" if root.num_consequences == 1 else f"{root.num_consequences} later failures"
    at, end = format_clock(root.time_s, digits=1), f"{vanish} would vanish."
    sentence = f"Follows from {at}: had it {turn} there{beside}, {end}"
    if is_hidden:
        sentence = f"Once {earlier} {_are(earlier)} corrected, it goes wrong at {at}: had it {turn} there too, {end}"
    return {
        "frame": root.frame,
        "cause": root.cause,
        "is_hidden": is_hidden,
        "words": " ".join(filter(None, (own, _describe_class(root, video, diagnosis), _describe_seeds(root)))),
        "of_consequence": sentence if root.num_consequences else "",
    }


def _describe_root(root: Root, earlier: str, hidden_turn: str) -> str:
    """Return what follows from a root; a hidden one, which should have a turn, has no failure in the run as it is."""
    corrected = (
        "it is corrected too" if hidden_turn else f"it and {earlier} are corrected" if earlier else "it is corrected"
    )
    vanish = format_count(root.num_consequences, "later failure vanishes", "later failures vanish")
    number = f"Once {corrected}, {vanish}." if root.num_consequences else "No later failure follows from it."
    if hidden_turn:
        fails = f"Hidden: it fails only once {earlier} {_are(earlier)} corrected ({', '.join(root.kinds)})"
        return f"{fails}: here it should then have {hidden_turn}. {number}"
    return number


def _are(noun: str) -> str:
    return "are" if noun.endswith("s") else "is"


def _describe_correction(root: Root, sample: Sample, output: FrameOutput | None, names: Mapping[str, str]) -> str:
    """Return what the reference has at a root in place of the model's output, after "had it"."""
    turns = [turn for turn in sample.turns if turn.role != "user" and frame_at(turn.time_s, sample.fps) == root.frame]
    written = () if output is None else output.updates
    expected = [turn.text for turn in turns if turn.role == "update" and turn.text not in written]
    message = next((turn.text for turn in reversed(turns) if turn.role == "assistant"), None)
    extra = [text for text in written if text not in {turn.text for turn in turns}]
    parts = list[str]()
    if _UPDATE_KINDS & {*root.kinds}:
        parts = [describe_update(text, names) for text in expected]
        if len(expected) == len(extra) == 1:
            parts = [f"{_contrast(expected[0], extra[0], names)},"]
        elif not expected:
            parts = [describe_update(text, names, is_done=False) for text in extra]
    if {*root.kinds} - _UPDATE_KINDS:
        said = f"said {quote(message)}" if message is not None else "stayed silent"
        parts = [*parts, said] if expected else [said, *parts]  # never "not started it and said"
    return " and ".join(parts).removesuffix(",") if 0 < len(parts) < 3 else "written the turns of the reference"


def _contrast(text: str, other: str, names: Mapping[str, str]) -> str:
    """Return an update in place of another one, such as "started “wheel”, not “roof”"."""
    first, second = parse_update(text), parse_update(other)
    named = describe_update(other, names)
    if first is not None and second is not None and first.transition == second.transition:
        named = names.get(second.step_id, second.step_id)
    return f"{describe_update(text, names)}, not {named}"


def describe_update(text: str, names: Mapping[str, str], *, is_done: bool = True) -> str:
    """Return an update, or that there was none, after "had it", with the step's name among ``names``."""
    update = parse_update(text)
    if update is None:
        return f"{'' if is_done else 'not '}written {quote(text)}"
    return _VERBS[update.transition, is_done].format(names.get(update.step_id, update.step_id))


def _describe_class(root: Root, video: DiagnosedVideo, diagnosis: RunDiagnosis) -> str:
    """Return what would make a root right, what that does to all other turns, and what its placebo does."""
    if root.cause == "history":
        return "It would be right if all earlier turns were those of the reference."
    if root.cause == "unexplained":
        tried = [one for one in diagnosis.experiments if not one.is_placebo and one.name in video.results]
        number = format_count(len(tried), "change was", "changes were")
        return f"Why is not known: {number} tried, none prevents it reliably." if tried else "No change was tried here."
    fixes = (one for one in diagnosis.experiments if one.name in root.fixed_by and one.kind == root.cause)
    effect = next(fixes, None)
    if effect is None:
        return ""
    known = _CONDITIONS.get(effect.name)
    condition = f"if {known}" if known else f"with the change {quote(effect.name)}"
    wrong, right = diagnosis.count_turns(effect.name)
    num_videos = format_count(sum(effect.name in found.results for found in diagnosis.videos), "video")
    numbers = (
        f"corrects {effect.fixed} of {format_count(wrong, 'wrong turn')} and breaks {effect.broken} of {right} right"
    )
    sentence = f"It would be right {condition}. Tried in {num_videos}, this {numbers} ones."
    for one in diagnosis.experiments:
        if one.is_placebo and one.kind == effect.kind and one.name in video.results:
            is_weak = f"{one.name}{_PLACEBO}" in root.fixed_by
            verb, end = ("corrects it too", ", so this is weak evidence") if is_weak else ("leaves it wrong", "")
            counts = f"({one.fixed} corrected, {one.broken} broken in all)"
            sentence += f" A control that should change nothing, {one.name}, {verb} {counts}{end}."
    return sentence


def _describe_seeds(root: Root) -> str:
    if root.kept_share is None or root.corrected_share is None:
        return ""
    return (
        f"At other seeds {root.kept_share:.0%} of what follows happens without its correction, "
        f"{root.corrected_share:.0%} with it."
    )


def _pack_decision(evidence: Evidence, names: Mapping[str, str]) -> Packed:
    fewest = evidence.fewest_last_frames
    kept = "the last picture keeps" if fewest == 1 else f"the last {fewest} pictures keep"
    kept = f"{kept} the decision" if fewest else "the decision stays the same without any picture"
    moves = [abs(frame.log_odds) for frame in evidence.frames if frame.log_odds is not None]
    moved = f"one picture moves them by at most {max(moves):.2g}; {kept}" if moves else _NO_EARLIER
    return {
        "frame": evidence.frame_index,
        "frames": [frame.frame_index for frame in evidence.frames],
        "series": {
            "log-odds": _round(frame.log_odds for frame in evidence.frames),
            "recency": _round(frame.recency for frame in evidence.frames),
            "picture difference": _round(frame.difference for frame in evidence.frames),
            "random weights": _round(frame.random_log_odds for frame in evidence.frames),
        },
        **_pack_patches(evidence),
        "texts": [[one.change, one.text, *_round((one.log_odds, one.random_log_odds))] for one in evidence.texts],
        "fewest": fewest,
        "words": f"Evidence for {_describe_decision(evidence, names)}: log-odds {evidence.log_odds:+.1f}; {moved}.",
        "no_proof": _NO_PROOF,
    }


def _pack_patches(evidence: Evidence) -> Packed:
    """Return the signed values of the patches of a picture by series, row by row; nothing without any."""
    if evidence.patches_frame is None:
        return {}
    series = {
        "log-odds": _round(one.log_odds for one in evidence.patches),
        "picture difference": _round(one.difference for one in evidence.patches),
        "random weights": _round(one.random_log_odds for one in evidence.patches),
    }
    return {"patches": {"frame": evidence.patches_frame, "series": series}}


def _round(values: Iterable[float | None]) -> list[float | None]:
    return [None if value is None else round(value, 4) for value in values]


def _describe_decision(evidence: Evidence, names: Mapping[str, str]) -> str:
    texts = evidence.contrast
    if texts is None:
        return {"speak": "speaking", "update": "an update", "silence": "silence"}.get(evidence.target, evidence.target)
    if texts.kind == "response":
        return f"{quote(texts.written)}, not {quote(texts.expected)}"
    return f"having {_contrast(texts.written, texts.expected, names)}"

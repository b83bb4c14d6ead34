"""``stepscope dialogues``: writes the dialogues of annotated videos, or checks those of a split."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version

from tqdm import tqdm

from stepscope.engine.plurals import format_count
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import InvalidSample, Sample, Split
from stepscope.eval.data.writers import write_samples
from stepscope.eval.dialogues.check import check_dialogue
from stepscope.eval.dialogues.options import DialoguesOptions
from stepscope.eval.dialogues.served import INSTRUCTION, KeptTexts, estimate_cost, fill_slots, make_batches
from stepscope.eval.dialogues.slots import Slot, build_turns, plan_dialogue
from stepscope.eval.dialogues.templates import write_text
from stepscope.eval.served.chat import ChatClient, Endpoint

Plan = tuple[Sample, tuple[Slot, ...]]


def write_dialogues(options: DialoguesOptions) -> int:
    """Write or check dialogues; return 1 if a video is left out, or if the check finds something."""
    endpoint = _check_options(options)
    split = read_split(options.split)
    if options.check:
        return _check(split)
    left_out = dict(_list_left_out(split))
    samples = [sample for sample in split.samples if sample.video_id not in left_out]
    if not samples:
        raise ValueError(
            f"no video of {options.split} has steps and updates; stepscope annotations writes such a split"
        )
    plans = [(one, plan_dialogue(one, rate=options.rate, num_questions=options.questions)) for one in samples]
    texts: Mapping[tuple[str, int], str] = {}
    if endpoint is not None:
        texts = _ask_model(options, endpoint, plans)
    if not options.estimate:
        _write(options, split, plans, texts, left_out)
    for video_id, reason in left_out.items():
        print(f"left out: {video_id}: {reason}", file=sys.stderr)
    return 1 if left_out else 0


def _check_options(options: DialoguesOptions) -> Endpoint | None:
    """Return the endpoint, if there is one. Raises ``ValueError`` for options that do not fit together."""
    if not 0 <= options.rate <= 1 or (options.questions or 0) < 0 or options.workers < 1:
        raise ValueError("--rate must be from 0 to 1, --questions at least 0, and --workers at least 1")
    if options.check == (options.out is not None):
        raise ValueError("give --out, the manifest to write, or --check to check the dialogues of the split")
    if options.out is not None and options.out.resolve() == options.split.resolve():
        raise ValueError(f"{options.out} is the split itself; name another --out")
    if not options.endpoint:
        if options.model or options.estimate:
            raise ValueError("--model and --estimate need --endpoint")
        return None
    if not options.model.strip():
        raise ValueError("--model is missing; name the served model")
    endpoint = Endpoint(
        url=options.endpoint, model=options.model, timeout_s=options.timeout_s, num_retries=options.retries
    )
    if endpoint.is_stream:
        raise ValueError(f"--endpoint must be an http:// or https:// address; got {options.endpoint}")
    return endpoint


def _check(split: Split) -> int:
    """Print the findings and the videos of which nothing is known; return 1 if there are any findings."""
    num_findings = 0
    for entry in split.entries:
        if isinstance(entry, InvalidSample):
            print(f"cannot be read: {entry.reason}")
        for finding in check_dialogue(entry) if isinstance(entry, Sample) else ():
            print(finding)
            num_findings += 1
    num_invalid = len(split.entries) - len(split.samples)
    unknown = sum(all(turn.role != "update" for turn in sample.turns) for sample in split.samples)
    remark = f"; without updates, steps are not checked in {format_count(unknown, 'video')}" if unknown else ""
    print(f"{format_count(num_findings, 'finding')} in {format_count(len(split.samples), 'video')}{remark}")
    return 1 if num_findings or num_invalid else 0


def _list_left_out(split: Split) -> Iterator[tuple[str, str]]:
    for entry in split.entries:
        if isinstance(entry, InvalidSample):
            yield entry.video_id, entry.reason
        elif not entry.steps or all(turn.role != "update" for turn in entry.turns):
            yield entry.video_id, "it has no steps with updates"
        elif not entry.has_reference:
            yield entry.video_id, "its updates are a model's own, not a reference"


def _ask_model(options: DialoguesOptions, endpoint: Endpoint, plans: Sequence[Plan]) -> Mapping[tuple[str, int], str]:
    """Print the cost and return the texts of the served model, by video and slot; none with ``--estimate``."""
    assert options.out is not None
    batches, kept = make_batches(plans), KeptTexts(options.out.with_name(f"{options.out.name}.answers.jsonl"))
    print(f"{options.model}: {estimate_cost(batches, kept, model=options.model)}", flush=True)
    if options.estimate:
        return {}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with tqdm(total=len(batches), unit="request", dynamic_ncols=True) as bar:
        return fill_slots(
            batches,
            kept,
            partial(ChatClient, endpoint),
            model=options.model,
            num_workers=min(options.workers, len(batches)),
            progress=bar.update,
        )


def _write(
    options: DialoguesOptions,
    split: Split,
    plans: Sequence[Plan],
    texts: Mapping[tuple[str, int], str],
    left_out: Mapping[str, str],
) -> None:
    """Write the manifest with its provenance, and print what was written."""
    assert options.out is not None
    written = list[Sample]()
    for sample, slots in plans:
        words = [texts.get((sample.video_id, i)) or write_text(slot, sample.video_id) for i, slot in enumerate(slots)]
        written.append(replace(sample, turns=build_turns(sample, slots, words)))
    num_texts = sum(len(slots) for _, slots in plans)
    num_replaced = sum(turn.role != "update" for sample, _ in plans for turn in sample.turns)
    asked = [sum(slot.kind == "question" for slot in slots) for _, slots in plans]
    num_missing = sum(max(0, (options.questions or 0) - number) for number in asked)
    provenance = {
        "written_by": f"StepScope {version('stepscope')}",
        "reference_writer": options.model if options.endpoint else "templates",
        "source": options.split.name,
        "source_sha256": split.digest,
        "rate": options.rate if options.questions is None else None,
        "questions": options.questions,
        "num_texts": num_texts,
        "num_texts_of_templates": num_texts - len(texts),
        "num_replaced_turns": num_replaced,
        "left_out": dict(left_out),
        **({"source_provenance": split.provenance} if split.provenance else {}),
    }
    if options.endpoint:
        provenance |= {"endpoint": options.endpoint, "instruction": INSTRUCTION}
    write_samples(options.out, written, file_format="manifest", provenance=provenance)
    print(f"{format_count(len(written), 'video')}, {num_texts} turns, {sum(asked)} of them questions: {options.out}")
    if options.endpoint:
        print(f"{len(texts)} turns by {options.model}, {num_texts - len(texts)} by templates")
    if num_replaced:
        print(f"{format_count(num_replaced, 'turn')} of {options.split} replaced")
    if num_missing:
        print(f"{format_count(num_missing, 'question')} left out: too few quiet frames")

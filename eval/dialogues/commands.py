"""``stepscope dialogues``: writes the dialogues of annotated videos, or checks those of a split."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar

from tqdm import tqdm
from tyro.conf import Positional

from stepscope.engine.cli.program import Options
from stepscope.engine.plurals import format_count
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import InvalidSample, Sample, Split
from stepscope.eval.data.writers import write_samples
from stepscope.eval.dialogues.check import check_dialogue
from stepscope.eval.dialogues.served import INSTRUCTION, KeptAnswers, describe_cost, fill_slots, make_batches
from stepscope.eval.dialogues.slots import Slot, build_turns, plan_dialogue
from stepscope.eval.dialogues.templates import write_text
from stepscope.eval.served.chat import ChatClient, Endpoint, make_endpoint

Plan = tuple[Sample, tuple[Slot, ...]]
Texts = Mapping[tuple[str, int], str]  # of a model, by video and number of the slot


@dataclass(frozen=True, kw_only=True)
class DialoguesOptions(Options):
    """Write a dialogue for each video of a split from its steps and updates, or check the dialogues of a split."""

    stop_message: ClassVar[str] = "stopped; no split was written; the same command asks for missing answers only"

    split: Positional[Path]
    """Split with steps and updates; its user and assistant turns are replaced."""
    out: Path | None = None
    """Manifest to write. Answers of a model are kept beside it, in OUT.answers.jsonl."""
    rate: float = 0.2
    """Chance of a question of the user per step: 0 for none, 0.4 for many."""
    questions: int | None = None
    """Questions in each video, instead of --rate."""
    endpoint: str = ""
    """Served model in place of the templates: an OpenAI-compatible endpoint, such as http://localhost:8000/v1. The key
    is read from $STEPSCOPE_API_KEY or $OPENAI_API_KEY."""
    model: str = ""
    """Name of the served model."""
    workers: int = 4
    """With --endpoint: requests at a time."""
    timeout_s: float = 60.0
    """With --endpoint: time limit of a request, in seconds."""
    retries: int = 3
    """With --endpoint: repeats of a request that fails."""
    estimate: bool = False
    """With --endpoint: print the number of requests and tokens, and stop."""
    check: bool = False
    """Write nothing: print what the dialogues of the split say before it is known, and steps that do not exist."""


def write_dialogues(options: DialoguesOptions) -> int:
    """Write or check dialogues; return 1 if a video is left out, or if the check finds something."""
    endpoint = _check_options(options)
    split = read_split(options.split)
    if options.out is None:
        return _check(split)
    left_out = dict(_list_left_out(split))
    samples = [sample for sample in split.samples if sample.video_id not in left_out]
    plans = [(one, plan_dialogue(one, rate=options.rate, num_questions=options.questions)) for one in samples]
    if not plans:
        raise ValueError(f"no video of {options.split} has steps with updates; name an annotated split")
    texts = {} if endpoint is None else _ask_model(options, options.out, endpoint, plans)
    if not options.estimate:
        _write(options, options.out, split, plans, texts)
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
    if not options.endpoint and not options.model and not options.estimate:
        return None
    if not options.endpoint or not options.model.strip():
        raise ValueError("a served model needs both --endpoint and --model")
    return make_endpoint(options)


def _check(split: Split) -> int:
    """Print the findings, and in how many videos steps are not checked; return 1 if there are any findings."""
    num_findings = 0
    for entry in split.entries:
        lines = [f"cannot be read: {entry.reason}"] if isinstance(entry, InvalidSample) else [*check_dialogue(entry)]
        num_findings += len(lines)
        print(*lines, sep="\n", end="\n" * bool(lines))
    num_unknown = sum(all(turn.role != "update" for turn in sample.turns) for sample in split.samples)
    remark = f"; without updates, steps are not checked in {num_unknown} of them" if num_unknown else ""
    print(f"{format_count(num_findings, 'finding')} in {format_count(len(split.entries), 'video')}{remark}")
    return 1 if num_findings else 0


def _list_left_out(split: Split) -> Iterator[tuple[str, str]]:
    for entry in split.entries:
        if isinstance(entry, InvalidSample):
            yield entry.video_id, entry.reason
        elif all(turn.role != "update" for turn in entry.turns):
            yield entry.video_id, "it has no steps with updates"


def _ask_model(options: DialoguesOptions, out: Path, endpoint: Endpoint, plans: Sequence[Plan]) -> Texts:
    """Print the cost and return the texts of the served model; none with ``--estimate``."""
    batches, kept = make_batches(plans), KeptAnswers(out.with_name(f"{out.name}.answers.jsonl"), model=options.model)
    print(f"{options.model}: {describe_cost(batches, kept)}", flush=True)
    if options.estimate:
        return {}
    out.parent.mkdir(parents=True, exist_ok=True)
    workers = min(options.workers, len(batches))
    with tqdm(total=len(batches), unit="request", dynamic_ncols=True) as bar:
        return fill_slots(batches, kept, partial(ChatClient, endpoint), num_workers=workers, progress=bar.update)


def _write(options: DialoguesOptions, out: Path, split: Split, plans: Sequence[Plan], texts: Texts) -> None:
    """Write the manifest with its provenance, and print what was written."""
    written = []
    for sample, slots in plans:
        words = [texts.get((sample.video_id, i)) or write_text(slot, sample) for i, slot in enumerate(slots)]
        written.append(replace(sample, turns=build_turns(sample, slots, words)))
    kinds = [slot.kind for _, slots in plans for slot in slots]
    counts = {
        "videos": len(plans),
        "videos left out": len(split.entries) - len(plans),
        "turns": len(kinds),
        "turns by templates": len(kinds) - len(texts),
        "questions": kinds.count("question") // 2,
        "earlier turns replaced": sum(turn.role != "update" for sample, _ in plans for turn in sample.turns),
    }
    provenance = {
        "written_by": f"StepScope {version('stepscope')}",
        "reference_writer": options.model or "templates",
        "source": options.split.name,
        "source_sha256": split.digest,
        "source_provenance": split.provenance,
        "rate": options.rate,
        "questions_per_video": options.questions,
        "counts": counts,
        **({"endpoint": options.endpoint, "instruction": INSTRUCTION} if options.endpoint else {}),
    }
    write_samples(out, written, file_format="manifest", provenance=provenance)
    print(f"{out}: {', '.join(f'{name} {count}' for name, count in counts.items())}")

"""The form of a new run: what is run by its entries, and how it is filled with the settings of a run that is shown.

The form is the user's: choosing a run never changes it, only the button *Use these settings* does.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr

from app.batch.context import FEATURES_FOLDER, BatchContext
from app.formatting import sentence
from app.player.views import say
from engine.config import read_threshold
from engine.errors import EngineError
from eval.data.samples import Split
from eval.runs.batch import describe, find_places
from eval.runs.folder import other_settings, tell_differences
from eval.runs.provenance import Provenance
from eval.runs.ray_pool import is_cluster
from eval.runs.worker import Work

DEVICES = ("auto", "cpu:1", "cpu:2", "cpu:4", "cuda", "cuda:0")
"""What is offered; a page for this machine alone takes others as well."""


class FilledForm(NamedTuple):
    """The status line and the entries of the form, in the order in which ``app.batch.tab`` wires them."""

    status: Any
    split: Any
    checkpoint: Any
    speak: Any
    update: Any
    devices: Any
    live: Any


UNFILLED = FilledForm(*(gr.skip() for _ in FilledForm._fields))


def make_work(batches: BatchContext, checkpoint: str | None, speak: Any, update: Any, *, live: bool) -> Work:
    """Return what is done with every video by the entries of the form. Raises ``ValueError`` for a wrong entry."""
    work = replace(
        batches.work,
        config=replace(
            batches.work.config,
            speak_threshold=read_threshold(speak, "speak"),
            update_threshold=read_threshold(update, "update"),
        ),
        live=live,
        features=batches.runs / FEATURES_FOLDER,
    )
    checkpoint = (checkpoint or "").strip()
    if checkpoint in ("", work.checkpoint):
        return work
    if not batches.takes_paths:
        raise ValueError("this page runs its own checkpoint only")
    return replace(work, checkpoint=checkpoint, heads=None)


def use_settings(batches: BatchContext, name: str | None, devices: str) -> FilledForm:
    """Fill the form with the settings of a run; a sentence says what a new run would have otherwise.

    The name stays as it is, and so do ``devices`` unless others of the list are those of the run.
    """
    try:
        settings = batches.settings_of(name)
        if not settings:
            raise ValueError("there is no run; choose one")
        return _fill(batches, str(name), settings, devices)
    except (EngineError, ValueError, OSError) as error:
        return UNFILLED._replace(status=say(sentence(error), is_problem=True))


def _fill(batches: BatchContext, name: str, settings: Mapping[str, Any], devices: str) -> FilledForm:
    source, split = Provenance.of_settings(name, settings), batches.split_of(settings)
    speak, update = (source.threshold(head) for head in ("speak", "update"))
    if not source.checkpoint or speak is None or update is None:
        raise ValueError(f"{name} was imported: it does not say which model and thresholds made it")
    checkpoint = source.checkpoint if batches.takes_paths else batches.work.checkpoint
    live, devices = settings.get("live") is True, _find_devices(settings.get("devices"), devices)
    work = make_work(batches, checkpoint, speak, update, live=live)
    differences = _describe_differences(split, work, settings, devices)
    return FilledForm(
        status=say(f"The form has the settings of {name}{differences}.", is_problem=bool(differences)),
        split=next((called for called, known in batches.splits.items() if known is split), gr.skip()),
        checkpoint=checkpoint,
        speak=speak,
        update=update,
        devices=devices,
        live=live,
    )


def _describe_differences(split: Split | None, work: Work, settings: Mapping[str, Any], devices: str) -> str:
    """Say in what a new run by the form would differ from one of these settings; nothing where it would not."""
    if split is None:
        called = Path(str(settings.get("split", ""))).name or "unknown"
        return f", but not its split ({called}): add it under Another split"
    if is_cluster(devices):  # its nodes are not asked while one waits for an answer
        return ""
    wanted = describe(split, work, find_places(devices))
    told = tell_differences(other_settings(settings, wanted), settings, wanted)
    return f", but a new run would have {told}" if told else ""


def _find_devices(wanted: Any, current: str) -> str:
    """Return the entry of the list that gives the devices of a run; the current one where it does, or none does."""
    for devices in (current, *DEVICES):
        try:
            if not is_cluster(devices) and [place.device for place in find_places(devices)] == wanted:
                return devices
        except (EngineError, ValueError):  # not on this machine
            continue
    return current

"""Rows of reviewed videos, and their CSV and JSON."""

import csv
import io
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from stepscope.app.exports.formats import write_csv_tables, write_json_tables
from stepscope.app.exports.rows import (
    ROW_TYPES,
    CorrectionRow,
    PredictionRow,
    ReferenceRow,
    StateRow,
    Tables,
    VerdictRow,
    build_tables,
)
from stepscope.app.review_store.actions import Action, Event
from stepscope.app.review_store.review import fold_actions
from stepscope.eval.annotations.corrections import Correction
from tests.support.data.strategies import TEXTS, few
from tests.support.reviews.exported import read_csv_tables, read_json_tables
from tests.support.reviews.reviewed import EVIL, NAMES, reviewed_video

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


_BY_TYPE: dict[object, st.SearchStrategy[object]] = {
    str: st.one_of(st.just(""), TEXTS),
    int: st.integers(0, 10**9),
    float: NUMBERS,
    float | None: st.none() | NUMBERS,
    tuple[str, ...]: st.lists(TEXTS, max_size=3).map(tuple),
}


ANY_TABLES = st.builds(
    Tables,
    **{
        name: st.lists(st.builds(row, **{field.name: _BY_TYPE[field.type] for field in fields(row)}), max_size=3).map(
            tuple
        )
        for name, row in ROW_TYPES.items()
    },
)


MOVED = Correction(reviewer="=cmd()", kind="boundary", turn=NAMES[3], time_s=3.5)


PLAIN_EVIL = EVIL.replace("\ud83d", "?")


@given(ANY_TABLES)
@few
def test_tables_come_back_from_csv_and_json_as_they_were(tables: Tables) -> None:
    with TemporaryDirectory() as folder:
        write_csv_tables(Path(folder), tables)
        assert read_csv_tables(Path(folder)) == tables
        write_json_tables(Path(folder, "review.json"), tables)
        assert read_json_tables(Path(folder, "review.json")) == tables


def test_a_reviewed_video_becomes_rows() -> None:
    tables = build_tables([reviewed_video(MOVED)])
    assert tables.predictions[0] == PredictionRow(
        video_id="boat", frame_index=2, time_s=1.0, role="update", text="S1->start", speak_prob=0.75, update_prob=0.25
    )
    assert [(row.time_s, row.role, row.text) for row in tables.predictions[1:]] == [(1.5, "assistant", PLAIN_EVIL)]
    layers = [
        (row.layer, row.time_s, row.text[:12], row.reviewers) for row in tables.references if row.role == "update"
    ]
    assert layers == [
        ("reference", 1.0, "S1->start", ()),
        ("reference", 3.0, "S1->complete", ()),
        ("reference", 3.0, "S2->start", ()),
        ("corrected", 1.0, "S1->start", ()),
        ("corrected", 3.5, "S1->complete", ("=cmd()",)),
        ("corrected", 3.5, "S2->start", ("=cmd()",)),
    ]
    assert tables.references[0] == ReferenceRow(
        video_id="boat",
        layer="reference",
        time_s=0.0,
        role="assistant",
        text="Set down the hull.",
        cause="drop",
        reviewers=(),
    )
    bands = [(row.source, row.start_s, row.end_s, row.state) for row in tables.states if row.step_id == "S1"]
    assert bands == [
        ("model", 0.0, 1.0, "not_started"),
        ("model", 1.0, 6.0, "in_progress"),
        ("reference", 0.0, 1.0, "not_started"),
        ("reference", 1.0, 3.0, "in_progress"),
        ("reference", 3.0, 6.0, "completed"),
        ("corrected", 0.0, 1.0, "not_started"),
        ("corrected", 1.0, 3.5, "in_progress"),
        ("corrected", 3.5, 6.0, "completed"),
    ]
    assert isinstance(tables.states[0], StateRow)
    assert tables.states[0].step_name == "set down the hull"
    event = Event(video_id="boat", kind="generated", role="assistant", time_s=1.5, text=EVIL)
    assert tables.verdicts[1] == VerdictRow(
        video_id="boat",
        event_key=event.key,
        event_kind="generated",
        event_role="assistant",
        event_time_s=1.5,
        event_text=PLAIN_EVIL,
        reviewer="=cmd()",
        verdict="unclear",
        tags=("+1", PLAIN_EVIL),
        note=PLAIN_EVIL,
        at="2026-01-02T03:04:05+00:00",
        run_digest="",
        model_digest="",
        speak_threshold=None,
        update_threshold=None,
        playhead_s=None,
        final="unclear",
    )
    assert (tables.verdicts[0].reviewer, tables.verdicts[0].run_digest) == ("<script>", "r1")
    assert tables.corrections == (
        CorrectionRow(
            video_id="boat",
            reviewer="=cmd()",
            kind="boundary",
            role="update",
            time_s=3.0,
            text="S2->start",
            number=0,
            new_text="",
            new_time_s=3.5,
            order=1,
            at=tables.corrections[0].at,
            status="effective",
        ),
    )


def test_corrections_have_their_order_their_time_and_whether_they_are_in_force() -> None:
    first, second, undone = (
        Correction(reviewer="ann", kind="time", turn=NAMES[4], time_s=time_s) for time_s in (1.0, 2.0, 3.0)
    )
    at = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    gone = Correction(reviewer="ann", kind="delete", turn=replace(NAMES[4], text="Older."))
    actions = [
        Action(kind="correction", reviewer="ann", video_id="boat", correction=found, at=at + timedelta(seconds=second))
        for second, found in enumerate((first, second, gone, undone))
    ]
    actions.append(Action(kind="undo", reviewer="ann", video_id="boat", target=actions[-1].action_id))
    video = replace(reviewed_video(), review=fold_actions(actions))
    rows = build_tables([video]).corrections
    assert [(row.order, row.at[17:19], row.new_time_s, row.status) for row in rows] == [
        (1, "00", 1.0, "replaced"),
        (2, "01", 2.0, "effective"),
        (3, "02", None, "does not fit"),
        (4, "03", 3.0, "undone"),
    ]
    bare = build_tables([replace(video, sample=None)]).corrections
    assert [row.status for row in bare] == ["", "", "", "undone"], "without a reference nothing is known of the others"


def test_no_cell_of_the_csv_is_a_formula_and_no_text_breaks_its_row(tmp_path: Path) -> None:
    tables = build_tables([reviewed_video(MOVED)])
    write_csv_tables(tmp_path, tables)
    for name in ROW_TYPES:
        text = (tmp_path / f"{name}.csv").read_bytes().decode()
        rows = list(csv.reader(io.StringIO(text, newline="")))
        assert {len(row) for row in rows} == {len(rows[0])}
        assert len(rows) == 1 + len(getattr(tables, name))
        assert not [cell for row in rows for cell in row if cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))]


def test_states_of_the_steps_that_are_not_known_have_no_rows() -> None:
    known, unknown = (build_tables([replace(reviewed_video(), has_states=has)]).states for has in (True, False))
    assert {row.source for row in known} == {"model", "reference", "corrected"}
    assert {row.source for row in unknown} == {"reference", "corrected"}

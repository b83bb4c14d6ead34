"""A small invented file of each form, and the segments that it has."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from stepscope.eval.data.samples import Turn
from stepscope.eval.datasets.reading import read_annotations
from stepscope.eval.datasets.segments import Annotations

Segments = list[tuple[float, float, str]]


@dataclass(frozen=True, kw_only=True)
class Form:
    """A file, and the segments of its only video."""

    file: str
    text: str
    segments: Segments
    video: str = "tea"
    goal: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    more: dict[str, str] = field(default_factory=dict)


POUR = [(1.0, 2.5, "pour"), (2.5, 4.0, "stir")]


def database(entries: str, **fields: Any) -> str:
    spans = [{"segment": list(span[:2]), "id": 3, "label": span[2], "sentence": span[2]} for span in POUR]
    return json.dumps({"database": {"tea": {entries: spans, "duration": 9, "subset": "training", **fields}}})


XML = '<?xml version="1.0" encoding="UTF-8"?>\n'
ELAN = (
    XML
    + '<ANNOTATION_DOCUMENT><HEADER TIME_UNITS="milliseconds"><MEDIA_DESCRIPTOR MEDIA_URL="file:///x/tea.mp4"/></HEADER>'
    '<TIME_ORDER><TIME_SLOT TIME_SLOT_ID="a" TIME_VALUE="1000"/><TIME_SLOT TIME_SLOT_ID="b" TIME_VALUE="2500"/>'
    '<TIME_SLOT TIME_SLOT_ID="c" TIME_VALUE="4000"/></TIME_ORDER><TIER TIER_ID="steps">'
    '<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="1" TIME_SLOT_REF1="a" TIME_SLOT_REF2="b">'
    "<ANNOTATION_VALUE>pour</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>"
    '<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="2" TIME_SLOT_REF1="b" TIME_SLOT_REF2="c">'
    "<ANNOTATION_VALUE>stir</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION></TIER>"
    '<TIER TIER_ID="hands"><ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="3" TIME_SLOT_REF1="a" TIME_SLOT_REF2="c">'
    "<ANNOTATION_VALUE>left</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION></TIER></ANNOTATION_DOCUMENT>"
)
ANVIL = (
    '<annotation><head><video src="tea.mov"/></head><body><track name="steps" type="primary">'
    '<el index="0" start="1" end="2.5"><attribute name="type">pour</attribute></el>'
    '<el index="1" start="2.5" end="4"><attribute name="type">stir</attribute></el></track></body></annotation>'
)
CVAT = (
    XML + "<annotations><version>1.1</version><meta><task><name>tea</name></task></meta>"
    '<track id="0" label="pour"><box frame="10" outside="0"/><box frame="20" outside="0"/>'
    '<box frame="25" outside="1"/></track>'
    '<track id="1" label="stir"><box frame="25" outside="0"/><box frame="39" outside="0"/></track></annotations>'
)
VIA = {
    "project": {},
    "attribute": {"1": {"aname": "step", "options": {"p": "pour", "s": "stir"}}},
    "file": {"1": {"fname": "tea.mp4"}},
    "view": {"1": {"fid_list": ["1"]}},
    "metadata": {
        "a": {"vid": "1", "z": [1, 2.5], "xy": [], "av": {"1": "p"}},
        "b": {"vid": "1", "z": [2.5, 4], "xy": [], "av": {"1": "s"}},
        "c": {"vid": "1", "z": [], "xy": [2, 1, 1, 9, 9], "av": {"1": "s"}},
    },
}
LABEL_STUDIO = [
    {
        "data": {"video": "/data/upload/tea.mp4"},
        "annotations": [
            {
                "result": [
                    {"value": {"ranges": [{"start": 11, "end": 25}], "timelinelabels": ["pour"]}},
                    {"value": {"ranges": [{"start": 26, "end": 40}], "timelinelabels": ["stir"]}},
                ]
            }
        ],
    }
]
HOLOASSIST = [
    {
        "video_name": "tea",
        "taskType": "make tea",
        "videoMetadata": {"duration": {"seconds": 9}},
        "events": [
            {"label": "Coarse grained action", "start": 1, "end": 2.5, "attributes": {"Action sentence": "pour"}},
            {
                "label": "Fine grained action",
                "start": 1,
                "end": 2,
                "attributes": {
                    "Verb": "lift",
                    "Noun": "cup",
                    "Action Correctness": "wrong, corrected by the instructor",
                    "Incorrect Action Explanation": "too early",
                    "Incorrect Action Corrected by": 7,
                },
            },
            {"label": "Coarse grained action", "start": 2.5, "end": 4, "attributes": {"Action sentence": "stir"}},
            {
                "id": 7,
                "label": "Conversation",
                "start": 3,
                "end": 4,
                "attributes": {"Conversation Purpose": "instructor-start", "Transcription": "Stir it."},
            },
            {
                "label": "Conversation",
                "start": 3.5,
                "end": 4,
                "attributes": {"Conversation Purpose": "student-ask", "Transcription": "Now?"},
            },
        ],
    }
]
STEPS = [
    {"step_id": n, "start_time": a, "end_time": b, "description": c, "has_errors": n == 2}
    for n, (a, b, c) in enumerate(POUR, 1)
]
GOALSTEP = {
    "videos": [
        {
            "video_uid": "tea",
            "goal_description": "make tea",
            "end_time": 9,
            "segments": [
                {
                    "start_time": a,
                    "end_time": b,
                    "step_description": c,
                    "step_category": c.upper(),
                    "is_relevant": "essential",
                    "segments": [
                        {"start_time": a, "end_time": b, "step_description": "lift", "is_relevant": "optional"}
                    ],
                }
                for a, b, c in POUR
            ]
            + [
                {
                    "start_time": 5,
                    "end_time": 6,
                    "step_description": "drink",
                    "is_relevant": "irrelevant",
                    "segments": [],
                }
            ],
        }
    ]
}
KEYSTEP = {
    "annotations": {
        "tea": {
            "scenario": "make tea",
            "segments": [{"start_time": a, "end_time": b, "step_name": c} for a, b, c in POUR],
        }
    },
    "taxonomy": {"make tea": {"1": {"name": "pour", "id": 1, "is_leafnode": True}}},
}
EGOPER = {
    "make tea": {
        "segments": [
            {
                "video_id": "tea",
                "labels": {
                    "time_stamp": [[0, 1], [1, 2.5], [2.5, 4]],
                    "action": [0, 1, 2],
                    "action_type": [0, 0, 2],
                    "error_description": ["", "", "spills"],
                },
            }
        ]
    }
}
FORMS = {
    "coin": Form(file="coin.json", text=database("annotation", **{"class": "MakeTea"}), segments=POUR, goal="MakeTea"),
    "youcook2": Form(file="y.json", text=database("annotations", recipe_type="113"), segments=POUR),
    "youcook2 with names": Form(
        file="y.json",
        text=database("annotations", recipe_type="113"),
        segments=POUR,
        goal="club sandwich",
        more={"label_foodtype.csv": "101,spider roll\n113,club sandwich\n"},
    ),
    "activitynet": Form(
        file="a.json",
        text=database("annotations", **{"class": "make tea"}).replace("sentence", "note"),
        segments=POUR,
        goal="make tea",  # that of an export
    ),
    "activitynet-captions": Form(
        file="c.json",
        text='{"tea": {"duration": 9, "timestamps": [[1, 2.5], [2.5, 4]], "sentences": ["pour", "stir"]}}',
        segments=POUR,
    ),
    "ikea-asm": Form(
        file="i.json",
        text='{"database": {"tea": {"annotation": [{"segment": [25, 50], "label": "flip"}, '
        '{"segment": [0, 9], "label": "NA"}]}}}',
        segments=[(1, 2, "flip")],
    ),
    "crosstask": Form(
        file="23_tea.csv",
        text="1,1.0,2.5\n2,2.5,4\n",
        segments=[(1, 2.5, "step 1"), (2.5, 4, "step 2")],
        goal="Make Tea",
        more={"tasks_primary.txt": "23\nMake Tea\nhttps://example.org\n2\npour,stir\n\n"},
    ),
    "epic-kitchens-100": Form(
        file="EPIC.csv",
        text="narration_id,participant_id,video_id,start_timestamp,stop_timestamp,start_frame,narration\n"
        "b,P01,tea,00:00:02.50,00:00:04.00,150,stir\na,P01,tea,00:00:01.00,00:00:02.50,60,pour\n",
        segments=POUR[::-1],
    ),
    "assembly101": Form(file="tea.txt", text="30\t75\tpour\n75\t120\tstir\n", segments=POUR),
    "assembly101-mistakes": Form(
        file="tea.csv",
        text="30,60,attach,arm connector,chassis,mistake,wrong position\n"
        "4656,4656,detach,boom,arm connector,correction,\n"
        "4699,5295,attach,arm connector,boom,correct\n",
        segments=[(4699 / 30, 176.5, "attach arm connector boom")],
    ),
    "egoprocel": Form(file="tea.csv", text='1,2.5,"1 pour"\n2.5,4,"2. stir"\n', segments=POUR),
    "meccano": Form(
        file="m.csv",
        text="tea,3,pour,00012.jpg,00030.jpg\ntea,4,stir,00030.jpg,00048.jpg\n",
        segments=POUR,
        options={"dataset": "meccano"},
    ),
    "industreal-ar": Form(
        file="m.csv", text="tea,3,pour,10.jpg,25.jpg\n", segments=POUR[:1], options={"dataset": "industreal-ar"}
    ),
    "industreal-psr": Form(file="tea.csv", text="000070.jpg,3,pour\n", segments=[(7, 7, "pour")]),
    "epic-tent": Form(
        file="t.txt",
        text="subject_id,action_label,str_GoPro_ts,end_GoPro_ts\ntea,pour,00:00:01:00,00:00:02:30\ntea,stir,-1,-1\n",
        segments=[(1, 2.5, "pour"), (-1, -1, "stir")],
    ),
    "wtag": Form(file="tea.tsv", text="10000000\t25000000\tpour\n25000000\t40000000\tstir\n", segments=POUR),
    "wtag with a clock": Form(
        file="tea.tsv",
        text="133010000000\t133025000000\tpour\n133025000000\t133040000000\tstir\n",
        segments=POUR,
        more={"VideoMpegTiming.txt": "133000000000\n133090000000\n"},
    ),
    "breakfast": Form(
        file="P16_cam01_P16_tea.txt",
        text="SIL\n" * 15 + "pour\n" * 30 + "stir\n" * 15,
        segments=[(1, 3, "pour"), (3, 4, "stir")],
        video="P16_cam01_P16_tea",
        goal="tea",
        more={"mapping.txt": "0 SIL\n1 pour\n2 stir\n", "all.bundle": "#bundle\n./data/P16_cam01_P16_tea.txt\n"},
        options={"subset": "all"},
    ),
    "breakfast-raw": Form(file="tea.txt", text="1-15 SIL\n16-45 pour\n", segments=[(1, 3, "pour")]),
    "50salads": Form(
        file="tea.txt", text="action_start\n" * 30 + "pour\n" * 15 + "action_end\n", segments=[(1, 1.5, "pour")]
    ),
    "gtea": Form(file="tea.txt", text="background\n" * 15 + "pour\n" * 15, segments=[(1, 2, "pour")]),
    "own frame-wise": Form(
        file="tea.txt",
        text="a\n" * 10 + "b\n" * 5,
        segments=[(0, 1, "a"), (1, 1.5, "b")],
        options={"unit": "frames@10"},
    ),
    "captaincook4d": Form(
        file="steps.json",
        text=json.dumps({"tea": {"recording_id": "tea", "activity_name": "make tea", "steps": STEPS}}),
        segments=POUR,
        goal="make tea",
    ),
    "goalstep": Form(file="g.json", text=json.dumps(GOALSTEP), segments=POUR, goal="make tea"),
    "keystep": Form(file="k.json", text=json.dumps(KEYSTEP), segments=POUR, goal="make tea"),
    "holoassist": Form(file="h.json", text=json.dumps(HOLOASSIST), segments=POUR, goal="make tea"),
    "egoper": Form(file="e.json", text=json.dumps(EGOPER), segments=[(1, 2.5, "1"), (2.5, 4, "2")], goal="make tea"),
    "via": Form(file="v.json", text=json.dumps(VIA), segments=POUR),
    "label studio": Form(file="l.json", text=json.dumps(LABEL_STUDIO), segments=POUR, options={"unit": "frames@10"}),
    "cvat": Form(file="c.xml", text=CVAT, segments=POUR, options={"unit": "frames@10"}),
    "elan": Form(file="e.eaf", text=ELAN, segments=POUR),
    "anvil": Form(file="a.anvil", text=ANVIL, segments=POUR),
    "audacity": Form(
        file="tea.txt", text="1.000000\t2.500000\tpour\n\\\t100.0\t200.0\n2.500000\t4.000000\tstir\n", segments=POUR
    ),
    "boris events": Form(
        file="b.tsv",
        text="Observation id\tMedia file name\tTime\tBehavior\tBehavior type\no\ttea.mp4\t1\tpour\tSTART\n"
        "o\ttea.mp4\t2.5\tpour\tSTOP\no\ttea.mp4\t3\tlook\tPOINT\n",
        segments=[(1, 2.5, "pour"), (3, 3, "look")],
    ),
    "boris aggregated": Form(
        file="b.csv",
        text="Observation id,Media file name,Behavior,Start (s),Stop (s)\no,tea.mp4,pour,1,2.5\no,tea.mp4,stir,2.5,4\n",
        segments=POUR,
    ),
    "webvtt": Form(
        file="tea.vtt",
        text="WEBVTT\n\n00:01.000 --> 00:02.500\n<v A>pour</v>\n\n00:02.500 --> 00:04.000\nstir\n",
        segments=POUR,
    ),
    "srt": Form(
        file="tea.srt",
        text="1\n00:00:01,000 --> 00:00:02,500\npour\n\n2\n00:00:02,500 --> 00:00:04,000\nstir\n",
        segments=POUR,
    ),
    "chapters": Form(
        file="tea.txt", text="0:00 boil\n1:02:03 pour\n", segments=[(0, 3723, "boil"), (3723, 3723, "pour")]
    ),
    "own table": Form(
        file="x.csv", text="Video;Start;End;Step\ntea.mp4;1;2,5;pour\ntea.mp4;0:02.5;0:04;stir\n", segments=POUR
    ),
    "exported table": Form(
        file="segments.csv",
        text="video_id,start_s,end_s,step_id,label,cause\ntea,1,2.5,S2,pour,light\ntea,2.5,4,S1,stir,\n",
        segments=POUR,
    ),
    "own columns": Form(
        file="x.csv",
        text="clip,from,to,what,error\ntea,1000,2500,pour,\ntea,2500,4000,stir,too fast\n",
        segments=POUR,
        options={"columns": ["video=clip", "start=from", "end=to", "label=what", "cause=error"], "unit": "ms"},
    ),
}


def read(form: Form, folder: Path, **options: Any) -> Annotations:
    for name, text in {form.file: form.text, **form.more}.items():
        (folder / name).write_text(text, encoding="utf-16" if name.endswith(".anvil") else "utf-8")
    return read_annotations([folder / name for name in (form.file, *form.more)], **{**form.options, **options})


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_recognised_and_its_segments_are_read(name: str, tmp_path: Path) -> None:
    form = FORMS[name]
    (video,) = read(form, tmp_path).videos
    assert video.problem == ""
    assert (video.video_id, video.goal) == (form.video, form.goal)
    assert [one.label for one in video.segments] == [label for _, _, label in form.segments]
    times = [time_s for one in video.segments for time_s in (one.start_s, one.end_s)]
    assert times == pytest.approx([time_s for start_s, end_s, _ in form.segments for time_s in (start_s, end_s)])


def test_exported_segments_keep_the_ids_of_their_steps(tmp_path: Path) -> None:
    (video,) = read(FORMS["exported table"], tmp_path).videos
    assert [segment.step_id for segment in video.segments] == ["S2", "S1"]
    exported = FORMS["activitynet"].text.replace('"id": 3', '"id": "S3"')
    (video,) = read(replace(FORMS["activitynet"], text=exported), tmp_path).videos
    assert [segment.step_id for segment in video.segments] == ["S3", "S3"]


def test_another_level_has_the_inner_segments(tmp_path: Path) -> None:
    labels = {
        name: [segment.label for segment in read(FORMS[name], tmp_path, level=2).videos[0].segments]
        for name in ("goalstep", "holoassist", "elan")
    }
    assert labels == {"goalstep": ["lift", "lift"], "holoassist": ["lift cup"], "elan": ["left"]}


def test_what_is_no_step_of_the_level_is_counted(tmp_path: Path) -> None:
    counts = {
        name: dict(read(FORMS[name], tmp_path).videos[0].left_out)
        for name in ("goalstep", "assembly101-mistakes", "gtea", "youcook2")
    }
    assert counts == {
        "youcook2": {"goal without a name": 1},
        "goalstep": {"of another level": 2, "irrelevant": 1},
        "assembly101-mistakes": {"no step": 2},
        "gtea": {"background": 1},
    }


def test_a_conversation_becomes_turns_of_its_speakers(tmp_path: Path) -> None:
    (video,) = read(FORMS["holoassist"], tmp_path).videos
    assert video.turns == (
        Turn(time_s=3, role="assistant", text="Stir it.", cause="too early"),
        Turn(time_s=3.5, role="user", text="Now?"),
    )


def test_errors_are_read_with_their_description(tmp_path: Path) -> None:
    causes = {
        name: [segment.cause for segment in read(FORMS[name], tmp_path).videos[0].segments]
        for name in ("egoper", "captaincook4d", "own columns")
    }
    assert causes == {"egoper": ["", "spills"], "captaincook4d": ["", "error"], "own columns": ["", "too fast"]}


def test_segments_in_two_files_are_read_once_with_the_description_of_their_error(tmp_path: Path) -> None:
    spans = [{"step_id": n, "start_time": a, "end_time": b, "description": c} for n, (a, b, c) in enumerate(POUR, 1)]
    errors = [{"tag": "Technique Error"}, {"tag": "Timing Error"}]
    record = {"recording_id": "tea", "is_error": True, "step_annotations": [spans[0], {**spans[1], "errors": errors}]}
    more = {"errors.json": json.dumps([record])}
    (video,) = read(replace(FORMS["captaincook4d"], more=more), tmp_path).videos
    assert [segment.cause for segment in video.segments] == ["", "Technique Error, Timing Error"]
    assert video.left_out == {"given twice": 2}


def test_recipes_come_from_a_list_of_tasks_and_from_a_taxonomy(tmp_path: Path) -> None:
    recipes = {name: read(FORMS[name], tmp_path) for name in ("crosstask", "keystep")}
    steps = {name: [step.name for step in found.recipes[found.videos[0].recipe]] for name, found in recipes.items()}
    assert steps == {"crosstask": ["pour", "stir"], "keystep": ["pour"]}


def test_a_file_of_two_possible_data_sets_asks_for_its_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="may be of meccano or industreal-ar; choose with --dataset"):
        read(FORMS["meccano"], tmp_path, dataset="")

"""The tools read, explain and judge; texts of a run are data, names are no paths, and replies are bounded."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepscope.app.agents.documents import replace_table
from stepscope.app.agents.table import MAX_REPLY_CHARS, ToolReply, call_tool, list_tools, pack_reply
from stepscope.app.agents.tools import Tools, open_runs
from stepscope.app.agents.workspace import Caller, open_workspace
from stepscope.app.review_store.actions import Action, check_verdict
from stepscope.app.review_store.review import measure_programs, review_agreement, review_disagreements
from stepscope.app.review_store.store import open_store, read_review
from tests.app.agents.conftest import INJECTION, SECRET, read_tree
from tests.support.paths import ASSETS, ROOT

VIDEO = "robot-hard"
ROBOT: dict[str, Any] = {"run": "bundled", "video": VIDEO}


def read(tools: Tools, name: str, **arguments: Any) -> Any:
    reply = call_tool(tools, name, arguments)
    assert not reply.is_error, reply.text
    return json.loads(reply.text)


def refuse(tools: Tools, name: str, **arguments: Any) -> str:
    reply = call_tool(tools, name, arguments)
    assert reply.is_error, reply.text
    return reply.text


def test_the_mistakes_of_the_bundled_run_have_fewer_than_4000_tokens(tmp_path: Path) -> None:
    with open_runs(tmp_path) as tools:
        reply = call_tool(tools, "list_mistakes", {"run": "bundled"})
    assert len(reply.text) / 3.5 < 2100  # characters by 3.5; of 64 failures
    found = json.loads(reply.text)
    assert found["found"] == "64 failures in 36 mistakes"
    time_s, sentence, *others = found["mistakes"][VIDEO][0]
    assert (time_s, others) == (9.5, ["decoy", "root"])
    assert sentence.startswith("The hand takes a part that is not needed. The assistant took this for the start of")


def test_reading_needs_no_torch() -> None:
    program = (
        "import sys, tempfile\nfrom stepscope.app.agents.tools import open_runs\n"
        "with open_runs(tempfile.mkdtemp()) as tools:\n    tools.list_runs(); tools.read_run('bundled')\n"
        "    tools.list_mistakes('bundled'); tools.search('bun'); tools.read_moment('bundled', 'robot-hard', 9.5)\n"
        "    tools.explain('bundled', 'robot-hard', max_cost=0)\nsys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


def test_a_moment_has_its_picture_signals_states_and_events(tmp_path: Path) -> None:
    with open_runs(tmp_path) as tools:
        reply = call_tool(tools, "read_moment", {**ROBOT, "time_s": 9.5})
    found = json.loads(reply.text)
    assert reply.pictures[0].startswith(b"\xff\xd8")
    assert found["picture"] == "picture 1 of this reply"
    assert found["link"] == "http://127.0.0.1:7860/?saved=bundled&video=robot-hard&t=9.5"
    assert found["signals"] == {"speak": 0.3471, "update": 0.8442, "thresholds": {"speak": 0.5, "update": 0.5}}
    assert "S2: in_progress, reference not_started" in found["states"]
    assert found["why"] == [
        "No later failure follows from it. Why is not known: 6 changes were tried, none prevents it reliably."
    ]
    assert found["mistake"].startswith("The hand takes a part that is not needed.")


def test_a_run_without_a_diagnosis_is_explained_and_changed_within_the_cost(tmp_path: Path) -> None:
    shutil.copytree(ASSETS / "demo" / "run", tmp_path / "mine", ignore=shutil.ignore_patterns("diagnosis.*"))
    settings = json.loads((tmp_path / "mine" / "run.json").read_text(encoding="utf-8"))
    settings |= {"split": str(ASSETS / "demo" / "test.json"), "checkpoint": str(ASSETS / "checkpoint")}
    (tmp_path / "mine" / "run.json").write_text(json.dumps(settings), encoding="utf-8")
    mine = {"run": "mine", "video": "robot-permuted"}
    before = read_tree(tmp_path)
    with open_runs(tmp_path) as tools:
        kept = read(tools, "explain", run="bundled", video="robot-permuted", max_cost=0)["failures"]
        assert "Not explained yet" in read(tools, "explain", **mine, max_cost=1)["not_explained"]
        found = read(tools, "explain", **mine)["failures"]
        changed = read(tools, "what_if", **mine, changes=[{"time": 15, "updates": ["S6->start"]}])
        wrong = refuse(tools, "what_if", **mine, changes=[{"time": 15, "updates": ["S99->start"]}])
        costly = [{"time": 1, "settings": {"max_new_tokens": 10**6}}], [{"time": 1, "message": "x" * 5000}]
        assert all("at most 4000" in refuse(tools, "what_if", **mine, changes=one) for one in costly)
        prompted = read(tools, "read_moment", **mine, time_s=15, prompt=True)
        itself = read(tools, "compare_runs", run="mine", other="bundled")
    names = ("time_s", "kind", "is_root", "root_s")
    assert [[one[name] for name in names] for one in found] == [[one[name] for name in names] for one in kept]
    assert changed["failures before and after"] == [9, 0]
    assert wrong.startswith("the changes: change 1: updates must name a step")
    assert any("robot" in line for line in prompted["prompt"])
    assert ["F1", *[round(0.9237, 4)] * 2, 0.0] in [row[:4] for row in itself["differences"]]
    assert read_tree(tmp_path) == before


def test_a_write_has_the_name_of_the_agent_counts_as_no_person_and_is_undone_as_one(tmp_path: Path) -> None:
    with open_store(tmp_path / "reviews.sqlite") as store, open_runs(
        tmp_path, caller=Caller(agent="claude\x1b", user="ann")
    ) as tools:  # fmt: skip
        events = read(tools, "read_moment", **ROBOT, time_s=9.5)["events"]
        event = next(one["event"] for one in events if "failure" in one)
        judged: dict[str, Any] = {**ROBOT, "event": event}
        done = read(tools, "add_verdict", **judged, verdict="redundant", reason="It takes a bun.", confidence=0.9)
        assert done["reviewer"] == "agent:claude (ann)"
        named = next(one.event for one in read_review(store).events)
        person = Action(kind="verdict", reviewer="ann", video_id=VIDEO, event=named, verdict="redundant")
        store.append(person)
        review = read_review(store)
        assert (review_agreement(review)[0].num_items, review_disagreements(review)) == (0, ())
        (program,) = measure_programs(review)
        assert (program.agreement.num_items, program.agreement.raw) == (1, 1.0)
        assert [(one.low, one.num_equal, one.num_verdicts) for one in program.calibration] == [(0.7, 1, 1)]
        settle = Action(kind="settle", reviewer="agent:x", video_id=VIDEO, event=named, verdict="correct")
        with pytest.raises(ValueError, match="only people settle"):
            check_verdict(settle)
        assert read(tools, "undo", write=done["write"]) == {"undone": 2}
        assert [one.reviewer for one in read_review(store).events[0].opinions if one.verdict] == ["ann"]
        assert "has no write" in refuse(tools, "undo", write=done["write"])
        assert "does not fit" in refuse(tools, "add_verdict", **judged, verdict="missed")
        turn = next(one for one in read(tools, "read_moment", **ROBOT, time_s=9.5)["reference"])
        proposal = {**ROBOT, "event": turn["event"], "kind": "time", "time_s": 10.0}
        proposed = read(tools, "propose_correction", **proposal)
        assert "within the video" in refuse(tools, "propose_correction", **{**proposal, "time_s": 1000.0})
        state = read_review(store)
        assert (state.corrections, state.correction_log) == ({}, {})
        (waiting,) = state.proposals[VIDEO]
        assert (waiting.kind, waiting.time_s, waiting.reviewer) == ("time", 10.0, proposed["reviewer"])
        assert read(tools, "undo", write=proposed["write"]) == {"undone": 1}
        assert not any(read_review(store).proposals.values())


def test_where_reviews_are_blind_no_reason_is_read_before_the_verdict(tmp_path: Path) -> None:
    chain: dict[str, Any] = {"run": "bundled", "video": "robot-permuted"}
    with open_workspace(tmp_path) as workspace:
        workspace.batches = replace(workspace.batches, is_blind=True)
        tools = Tools(workspace)
        moment = read(tools, "read_moment", **chain, time_s=15.0)
        found = read(tools, "read_run", run="bundled"), read(tools, "list_mistakes", run="bundled"), moment
        assert not {"roots", "root", "consequence"} & {*re.findall(r"\w+", json.dumps(found))}
        assert moment["why"].startswith("Blind: ")
        blind = read(tools, "explain", **chain, time_s=15.0)
        assert blind.keys() == {"not_explained", "link"}
        assert "a reason is shown after your verdict" in refuse(tools, "search", query="failure:root")
        assert "roots" not in read(tools, "compare_runs", run="bundled", other="bundled")
        event = next(one["event"] for one in moment["events"] if one["time_s"] == 15.0 and one.get("failure"))
        read(tools, "add_verdict", **chain, event=event, verdict="redundant")
        (why,) = read(tools, "read_moment", **chain, time_s=15.0)["why"]
        assert why.startswith("Once it is corrected, 7 later failures vanish.")
        assert {one["time_s"] for one in read(tools, "explain", **chain)["failures"]} == {15.0}


def test_nobody_without_the_right_writes(tmp_path: Path) -> None:
    with open_runs(tmp_path, caller=Caller(may_write=False)) as tools:
        arguments: dict[str, dict[str, Any]] = {
            "add_verdict": {**ROBOT, "event": "x", "verdict": "correct"},
            "propose_correction": {**ROBOT, "event": "x", "kind": "delete"},
            "undo": {"write": "x"},
            "publish": {"run": "bundled"},
            "export": {"run": "bundled"},
        }
        assert arguments.keys() == {name for name, one in list_tools(Tools).items() if one.writes}
        for name, values in arguments.items():
            assert "sign in first" in refuse(tools, name, **values)


def test_a_run_is_published_and_exported_beside_the_runs(folder: Path, tools: Tools) -> None:
    video = next(iter(read(tools, "list_mistakes", run="demo")["mistakes"]))
    done = read(tools, "publish", run="demo", videos=[video], pictures=False)
    assert (Path(done["folder"]), done["videos"]) == (folder / "runs" / ".published" / "demo", 1)
    assert (folder / "runs" / ".published" / "demo" / "index.html").is_file()
    assert list(read(tools, "export", run="demo", video=video, file_format="webvtt")["bytes"]) != []
    assert [one["run"] for one in read(tools, "list_runs")["runs"]] == ["demo", "bundled"]


@pytest.mark.parametrize(
    "run", ["..", ".", "", "../secret.txt", "/etc", "demo/../demo", "demo/", "runs/demo", "link", "linked", "d\0emo"]
)
def test_a_name_is_no_path_and_links_are_not_followed(folder: Path, tools: Tools, run: str) -> None:
    (folder / "runs" / "link").symlink_to(folder / "outside")
    shutil.copytree(folder / "runs" / "demo", folder / "outside")
    shutil.copytree(folder / "runs" / "demo", folder / "runs" / "linked")
    (folder / "runs" / "linked" / "notes.json").symlink_to(folder / "secret.txt")
    assert [one["run"] for one in read(tools, "list_runs")["runs"]] == ["demo", "bundled"]
    for name in ("read_run", "list_mistakes", "export"):
        assert SECRET not in refuse(tools, name, run=run)


def test_what_is_no_split_is_not_quoted(folder: Path, tools: Tools) -> None:
    settings = json.loads((folder / "runs" / "demo" / "run.json").read_text(encoding="utf-8"))
    (folder / "runs" / "demo" / "run.json").write_text(
        json.dumps({**settings, "split": str(folder / "secret.txt")}), encoding="utf-8"
    )
    assert SECRET not in refuse(tools, "read_moment", run="demo", video="x", time_s=0)


def test_instructions_in_a_run_are_data_of_the_reply_and_nothing_is_written(folder: Path, tools: Tools) -> None:
    before, shown = read_tree(folder), INJECTION.replace("\u202e", "\\u202e")
    mistakes = read(tools, "list_mistakes", run="demo")["mistakes"]
    (video,) = mistakes
    moment = read(tools, "read_moment", run="demo", video=f"../{INJECTION}", time_s=mistakes[video][0][0])
    assert shown in moment["goal"]
    assert all(shown in name for name in moment["steps"].values())
    read(tools, "read_run", run="demo")
    read(tools, "search", query="instructions", run="demo")
    for video_id in ("../secret.txt", "/etc/passwd", "v0.mp4"):
        assert "has no video" in refuse(tools, "read_moment", run="demo", video=video_id, time_s=0)
    refuse(tools, "list_mistakes", run="demo", query=INJECTION + '" failure:nothing')
    assert read_tree(folder) == before
    with open_store(folder / "runs" / "reviews.sqlite") as store:
        assert store.read() == ()


def test_a_reply_is_bounded() -> None:
    assert len(pack_reply({"text": "x" * 10_000}).text) < 700
    assert len(pack_reply({"rows": ["x" * 500] * 100}).text) < 9_000, "all rows, with shorter texts"
    with pytest.raises(ValueError, match="ask for less"):
        pack_reply({"rows": ["x" * 500] * 1000})
    assert pack_reply({"value": float("nan"), "none": None, "rows": []}) == ToolReply(text="{}")
    assert MAX_REPLY_CHARS / 3.5 <= 4000


def test_the_documents_have_the_table_of_tools() -> None:
    document = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert "`list_mistakes`" in document
    assert replace_table(document) == document

"""Java programs that die, stay silent or answer nonsense; a fake takes their place."""

import gzip
import math
import os
import stat
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stepscope.eval.metrics.text import TextScorer, java
from stepscope.eval.metrics.text.java import NUM_STATISTICS, JavaError, Meteor

# Speaks both protocols: the tokenizer lowers the case; METEOR counts shared words. It dies at "poison", at "stumble"
# only in the first METEOR, is silent at "sleepy", and writes each start to a log.
FAKE_JAVA = """#!{python} -S
import os, sys, time
log = {log!r}
if "-preserveLines" in sys.argv:
    sys.stdout.write(sys.stdin.buffer.read().decode().lower())
    sys.exit()
with open(log, "a") as file:
    file.write("start\\n")
is_first = os.path.getsize(log) == 6
for line in sys.stdin:
    command, *fields = line.strip().split(" ||| ")
    if "poison" in line or ("stumble" in line and is_first):
        sys.exit("OutOfMemoryError: all gone")
    if "sleepy" in line:
        time.sleep(60)
    if "riddle" in line:
        print("Error: what?", flush=True)
    elif command == "SCORE":
        reference, hypothesis = (set(field.split()) for field in fields)
        print(f"{{len(reference & hypothesis)}}.0 {{len(reference)}}.0" + 21 * " 0.0", flush=True)
    else:
        numbers = [float(field.split()[0]) / float(field.split()[1]) for field in fields]
        for number in [*numbers, sum(numbers) / len(numbers)]:
            print(number, flush=True)
"""


@pytest.fixture
def fake_java(tmp_path: Path) -> Path:
    path = tmp_path / "java"
    path.write_text(FAKE_JAVA.format(python=sys.executable, log=str(tmp_path / "starts")))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def num_starts(fake_java: Path) -> int:
    return len((fake_java.parent / "starts").read_text().splitlines())


def test_texts_that_meteor_cannot_align_are_nan_with_the_reason(fake_java: Path) -> None:
    with TextScorer(java=fake_java) as scorer:
        scores = scorer.score(["go on " * 300], ["go on " * 300])
        assert math.isnan(scores["METEOR"])
        assert scores["Bleu_4"] == pytest.approx(1)
        assert scorer.problem == "METEOR cannot align texts of 600 x 600 words; shorten one"


def test_threads_that_share_a_scorer_each_get_their_own_figures(fake_java: Path) -> None:
    words = "abcdefgh"
    with TextScorer(java=fake_java) as scorer, ThreadPoolExecutor(8) as pool:
        # k of 8 words are right: k / 8 in the fake's METEOR
        scores = pool.map(lambda k: scorer.score([" ".join(words)], [" ".join(words[:k])])["METEOR"], range(1, 9))
        assert list(scores) == [k / 8 for k in range(1, 9)]
        assert num_starts(fake_java) == 1


def test_meteor_that_is_killed_in_the_middle_is_started_again(fake_java: Path) -> None:
    with TextScorer(java=fake_java) as scorer:
        expected = scorer.score(["a b", "c d"], ["a", "c"])["METEOR"]
        process = scorer._meteor._process
        assert process is not None
        process.kill()
        process.wait()
        assert scorer.score(["a b", "c d"], ["a", "c"])["METEOR"] == expected == 0.5
        assert num_starts(fake_java) == 2
    assert scorer.problem is None


def test_meteor_that_dies_between_two_pairs_goes_on_with_the_second(fake_java: Path) -> None:
    with TextScorer(java=fake_java) as scorer:
        scores = scorer.score(["a b", "stumble c", "d"], ["a", "c", "d"])
        assert scores["METEOR"] == pytest.approx((1 + 1 + 1) / (2 + 2 + 1))
        assert num_starts(fake_java) == 2
    assert scorer.problem is None


@pytest.mark.parametrize(("word", "reason"), [("poison", "OutOfMemoryError: all gone"), ("riddle", "Error: what?")])
def test_meteor_that_fails_for_good_is_nan_with_the_reason_and_the_next_call_is_well(
    fake_java: Path, word: str, reason: str
) -> None:
    with TextScorer(java=fake_java) as scorer:
        scores = scorer.score(["a b", f"{word} c"], ["a", "c"])
        assert math.isnan(scores["METEOR"])
        assert scores["Bleu_1"] > 0
        assert scorer.problem is not None
        assert reason in scorer.problem
        assert scorer.score(["a b"], ["a"])["METEOR"] == 0.5
        assert num_starts(fake_java) <= 3


def test_meteor_that_is_silent_is_given_up_after_its_time(fake_java: Path) -> None:
    with TextScorer(java=fake_java, limit_s=0.5) as scorer:
        assert math.isnan(scorer.score(["sleepy"], ["a"])["METEOR"])
        assert scorer.problem is not None
        assert "longer than 0.5 s" in scorer.problem


@pytest.mark.parametrize("kind", ["missing", "not executable", "broken"])
def test_without_java_every_score_is_nan_with_the_reason(tmp_path: Path, kind: str) -> None:
    java = tmp_path / "java"
    if kind != "missing":
        java.write_text("#!/bin/sh\necho 'no such machine' >&2; exit 3\n")
        java.chmod(0o755 if kind == "broken" else 0o644)
    with TextScorer(java=java) as scorer:
        scores = scorer.score(["a"], ["a"])
        assert list(scores) == ["Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "CIDEr", "METEOR"]
        assert all(math.isnan(score) for score in scores.values())
        assert scorer.problem is not None
        assert ("no such machine" if kind == "broken" else str(java)) in scorer.problem
    with pytest.raises(JavaError):
        Meteor(java=java).score([0.0] * NUM_STATISTICS)


def test_a_closed_scorer_leaves_no_process_no_thread_and_no_pipe(fake_java: Path) -> None:
    def num_handles() -> int:
        return len(os.listdir("/proc/self/fd"))

    handles, threads = num_handles(), threading.active_count()
    with TextScorer(java=fake_java) as scorer:
        scorer.score(["stumble a", "b"], ["a", "b"])
        process = scorer._meteor._process
        assert process is not None
        assert num_handles() == handles + 3  # its input, its output, its complaints
    assert process.returncode is not None
    assert num_handles() == handles
    assert threading.active_count() == threads


def test_references_that_meteor_does_not_know_get_the_whole_table(
    fake_java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPSCOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "_TABLE", tmp_path / "table.gz")
    with gzip.open(tmp_path / "table.gz", "wt") as file:
        file.write("0.1\nthe box\na box\n")
    for _ in range(2):  # the second time with the table that was kept
        with TextScorer(java=fake_java, references=["the box", "go on"]) as scorer:
            assert scorer.score(["go on"], ["go on"])["METEOR"] == 1
    assert len(list((tmp_path / "cache" / "meteor").glob("*.gz"))) == 1
    assert num_starts(fake_java) == 2
    with TextScorer(java=fake_java, references=["the box", "go on"]) as scorer:
        for text in ("go on", "the end", "the box"):
            assert scorer.score([text], [text])["METEOR"] == 1
    assert num_starts(fake_java) == 4
    (tmp_path / "table.gz").write_bytes(b"damaged")
    with TextScorer(java=fake_java, references=["the wheel"]) as scorer:
        assert scorer.score(["the wheel"], ["the wheel"])["METEOR"] == 1

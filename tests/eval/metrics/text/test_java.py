"""Java programs that die or stay silent; a fake takes their place."""

import math
import stat
import sys
from pathlib import Path

import pytest

from stepscope.eval.metrics.text import TextScorer
from stepscope.eval.metrics.text.java import NUM_STATISTICS, JavaError, Meteor

# Speaks both protocols: the tokenizer lowers the case; METEOR counts shared words. It dies at "poison",
# is silent at "sleepy", and writes each start to a log.
FAKE_JAVA = """#!{python} -S
import sys, time
log = {log!r}
if "-preserveLines" in sys.argv:
    sys.stdout.write(sys.stdin.buffer.read().decode().lower())
    sys.exit()
with open(log, "a") as file:
    file.write("start\\n")
for line in sys.stdin:
    command, *fields = line.strip().split(" ||| ")
    if "poison" in line:
        sys.exit("OutOfMemoryError: all gone")
    if "sleepy" in line:
        time.sleep(60)
    if command == "SCORE":
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


def test_meteor_that_fails_for_good_is_nan_with_the_reason_and_the_next_call_is_well(fake_java: Path) -> None:
    with TextScorer(java=fake_java) as scorer:
        scores = scorer.score(["a b", "poison c"], ["a", "c"])
        assert math.isnan(scores["METEOR"])
        assert scores["Bleu_1"] > 0
        assert scorer.problem is not None
        assert "OutOfMemoryError: all gone" in scorer.problem
        assert scorer.score(["a b"], ["a"])["METEOR"] == 0.5
        assert num_starts(fake_java) <= 3


def test_meteor_that_is_silent_is_given_up_after_its_time(fake_java: Path) -> None:
    with TextScorer(java=fake_java, limit_s=0.5) as scorer:
        assert math.isnan(scorer.score(["sleepy"], ["a"])["METEOR"])
        assert scorer.problem is not None
        assert "longer than 0.5 s" in scorer.problem


@pytest.mark.parametrize("kind", ["missing", "broken"])
def test_without_java_every_score_is_nan_with_the_reason(tmp_path: Path, kind: str) -> None:
    java = tmp_path / "java"
    if kind != "missing":
        java.write_text("#!/bin/sh\necho 'no such machine' >&2; exit 3\n")
        java.chmod(0o755)
    with TextScorer(java=java) as scorer:
        scores = scorer.score(["a"], ["a"])
        assert list(scores) == ["Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "CIDEr", "METEOR"]
        assert all(math.isnan(score) for score in scores.values())
        assert scorer.problem is not None
        assert ("no such machine" if kind == "broken" else str(java)) in scorer.problem
    with pytest.raises(JavaError):
        Meteor(java=java).score([0.0] * NUM_STATISTICS)

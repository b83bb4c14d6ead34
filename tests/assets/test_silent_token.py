"""The twin of the bundled checkpoint that decides by a silent token: its files, and its figures in the documents."""

import re
from pathlib import Path

import pytest

from stepscope.engine.config import StreamConfig
from stepscope.engine.decisions.policies import POLICIES, convert_theta
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.checkpoint_folder import identify_model
from stepscope.engine.model.files.bundled import BUNDLED_CHECKPOINTS
from stepscope.engine.model.files.loading import load_tokenizer
from stepscope.eval.data.loading import read_split
from stepscope.eval.matching.sentence_encoders import load_encoder
from stepscope.eval.reports.scoring import ScoreSettings
from stepscope.eval.runs.worker_messages import WorkerConfig
from stepscope.eval.sweeps.exact import run_sweep
from stepscope.eval.sweeps.folder import read_sweep
from stepscope.eval.sweeps.grid import Grid
from tests.support.paths import ASSETS, ROOT

FOLDER = ASSETS / "checkpoint-silent-token"
REMEDY = "python -m stepscope.assets twin, then measure it again; see docs/checkpoints.md"


@pytest.fixture(scope="module")
def twin() -> Checkpoint:
    return load_model("bundled-silent-token", device="cpu")


def test_it_is_the_twin_of_the_bundled_checkpoint(twin: Checkpoint) -> None:
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    base = identify_model(BUNDLED_CHECKPOINTS["bundled"])
    assert base.digest in card, REMEDY
    assert twin.digest in card, REMEDY
    assert twin.encoder_digest == load_model("bundled", device="cpu").encoder_digest
    assert twin.identity.preprocessor == base.preprocessor
    assert twin.prompt.tokenizer.get_vocab() == load_tokenizer(BUNDLED_CHECKPOINTS["bundled"]).get_vocab()
    assert twin.prompt.words(",") == (twin.silent_id,)
    assert twin.fit_config(StreamConfig()).decision_policy == "streaming-eos"


def documented_scores() -> dict[float, tuple[float, float, float]]:
    """Return F1, missing and redundant rate by theta, from the table in the documents."""
    text = (ROOT / "docs" / "checkpoints.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| [\d.]+ \| [\d.]+ \| \d+ \|$", text, re.M)
    return {float(theta): (float(f1), float(missing), float(redundant)) for theta, f1, missing, redundant in rows}


@pytest.mark.slow
def test_its_scores_over_theta_are_those_of_the_documents(tmp_path: Path) -> None:
    documented = documented_scores()
    assert len(documented) == 7
    thetas = (0.95, 0.725, 0.0)
    grid = Grid(speak=tuple(map(convert_theta, thetas)), update=(), policy=POLICIES["streaming-eos"])
    encoder = load_encoder()
    split = read_split(ASSETS / "demo" / "val.json")
    work = WorkerConfig(checkpoint="bundled-silent-token", config=StreamConfig(decision_policy="streaming-eos"))
    scoring = ScoreSettings(text_encoder="all-MiniLM-L6-v2")
    for _ in run_sweep(split, work, grid, out=tmp_path, scoring=scoring, encode=encoder.encode, device="cpu:1"):
        pass
    for theta, point in zip(thetas, read_sweep(tmp_path).points, strict=True):
        found = (point["F1"], point["missing_rate"], point["redundant_rate"])
        assert found == pytest.approx(documented[theta], abs=6e-4), f"theta {theta}: {REMEDY}"

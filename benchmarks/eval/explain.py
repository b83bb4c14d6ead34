"""Cost of a diagnosis of the bundled test split in runs: ``python -m benchmarks.eval.explain``.

For the checkpoint with heads and the one that answers: the chain of corrections and the gold pass, as tokens and
processor time over those of the run itself, in one process with one thread.
"""

import time
from collections import Counter, defaultdict
from pathlib import Path

import torch

from stepscope.engine.config import StreamConfig
from stepscope.engine.loading import load_model
from stepscope.engine.model.features.frame_encoder import encode
from stepscope.engine.replay import Recording
from stepscope.engine.video.reader import read_frames
from stepscope.eval.data.loading import read_samples
from stepscope.eval.data.samples import build_task
from stepscope.eval.diagnosis.videos import VideoDiagnosis, diagnose_video
from stepscope.eval.matching.turns import DEFAULT_ENCODER, import_encoder
from stepscope.eval.reports.scoring import ScoreSettings

ASSETS = Path(__file__).parents[2] / "assets"


def main() -> None:
    """Print a row for each checkpoint."""
    torch.set_num_threads(1)
    encode_texts = import_encoder(DEFAULT_ENCODER).encode
    encode_texts(["Good."])
    print(f"{'checkpoint':<20}{'failures':>10}{'roots':>7}  chain: tokens, time  chain and gold pass: tokens, time")
    for name in ("checkpoint", "checkpoint-answer"):
        checkpoint = load_model(ASSETS / name, device="cpu")
        tokens, numbers, times_s = Counter[str](), Counter[str](), defaultdict[str, float](float)
        for sample in read_samples(ASSETS / "demo" / "test.json"):
            assert sample.video_path is not None
            frames = list(encode(checkpoint, read_frames(sample.video_path, fps=sample.fps)))
            config = checkpoint.fit_config(StreamConfig(fps=sample.fps))
            began_s = time.process_time()
            recording = Recording(checkpoint, frames, task=build_task(sample), config=config)
            list(recording.run())
            times_s["run"] += time.process_time() - began_s
            steps = diagnose_video(
                recording, sample, (), encode=encode_texts, scoring=ScoreSettings(text_encoder=DEFAULT_ENCODER)
            )
            part, began_s = "chain", time.process_time()
            for step in steps:
                times_s[part] += time.process_time() - began_s
                part, began_s = "gold" if step == "gold history" else part, time.process_time()
            assert isinstance(step, VideoDiagnosis)
            found = step
            numbers += Counter(failures=found.num_failures[0], roots=len(found.roots))
            tokens += Counter(run=found.num_run_tokens, chain=found.num_chain_tokens, gold=found.gold.num_tokens)
        costs = [
            f"{values['chain'] / values['run']:.2f} {(values['chain'] + values['gold']) / values['run']:.2f}"
            for values in (tokens, times_s)
        ]
        (chain, both), (chain_s, both_s) = (cost.split() for cost in costs)
        print(f"{name:<20}{numbers['failures']:>10}{numbers['roots']:>7}{chain:>15}, {chain_s:<5}{both:>17}, {both_s}")


if __name__ == "__main__":
    main()

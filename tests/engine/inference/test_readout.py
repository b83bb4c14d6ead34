"""Texts behind a frame: their probabilities from the logits of each token."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.requests import Branch
from stepscope.engine.inference.readout import ReadoutSpec, Sampler, find_reads, read_branches

MODEL: Any = SimpleNamespace(token_logits=lambda hidden: hidden)
STATE = Branch(position=0, ids=(5, 6, 0, 2))  # two tokens of opening, then the state 0, 2
LOGITS = torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.7, 0.1]]).log()  # at the positions of 6 and 0


def test_the_probability_of_a_state_is_the_product_over_its_tokens() -> None:
    spec = ReadoutSpec(scored_after=2)
    assert find_reads(STATE, spec) == ((5, 6, 0), [1, 2])
    assert read_branches(MODEL, LOGITS, [STATE], spec) == pytest.approx([math.log(0.5 * 0.1)])


def test_a_reserved_reply_counts_where_greedy_decoding_writes_it() -> None:
    spec = ReadoutSpec(scored_after=2, needs_most_likely_text=True)
    written = Branch(position=0, ids=(5, 6, 0, 1))
    hidden = torch.cat([LOGITS, LOGITS])
    assert read_branches(MODEL, hidden, [STATE, written], spec) == pytest.approx([-math.inf, math.log(0.35)])


def test_the_threshold_of_silence_within_a_reply_falls_with_each_token() -> None:
    config = StreamConfig(speak_threshold=0.2, theta_step=-0.1)  # theta .8, .7, .6
    sampler = Sampler(config, silence_id=0)
    logits = torch.tensor([[0.65, 0.35]]).log().expand(4, 2)
    assert sampler.sample(logits, (0, 1, 2, -1)) == (1, 1, 0, 0)
    assert sampler.sample(logits) == (0, 0, 0, 0)

"""Prompts of questions: the context of a run, and conversations."""

from dataclasses import replace

import pytest

from engine.chat.prompts import ChatTurn, Conversation, render_conversation, render_run
from engine.config import ContextStrategy, StreamConfig
from engine.control.controller import StreamController
from engine.control.requests import Image
from engine.control.task import Task
from engine.records import UserTurn
from tests.support.streams.fakes import EOS, RESPONSE, STEPS, CharacterCodec, ScriptedRunner

CODEC = CharacterCodec()


class SeparatingCodec(CharacterCodec):
    """A codec with tokens between frames and after responses."""

    frame_separator, stream_opening = (4,), (5, 6)


@pytest.mark.parametrize("strategy", ["refresh", "drop-all", "none"])
@pytest.mark.parametrize("codec", [CODEC, SeparatingCodec()], ids=["plain", "separating"])
def test_the_rendered_context_is_the_one_that_the_stream_fed(codec: CharacterCodec, strategy: ContextStrategy) -> None:
    task = Task(goal="g", steps=STEPS, user_turns=(UserTurn(time_s=1.0, text="and now?"),))
    turns = {
        index: ((("S1->start",), "Begin."), ((), "Next."), (("S1->complete", "S2->start"), None), ((), None))[index % 4]
        for index in range(40)
    }
    config = StreamConfig(
        max_new_tokens=8, max_update_tokens=12, max_seq_len=230, reserved_seq_len=100, context_strategy=strategy
    )
    if strategy == "none":
        config = replace(config, max_seq_len=4096)
    digests = [f"frame {index}" for index in range(40)]
    num_cuts = 0
    for num_frames in range(1, 41):
        controller = StreamController(task, config=config, codec=codec, tokens_per_frame=1, is_traced=True)
        outputs = ScriptedRunner(turns, num_frames=num_frames, codec=codec).drive(controller.run())
        num_cuts += outputs[-1].refreshed
        items = [computed.item.piece for computed in controller.draft_buffer.trace.contexts[-1]]
        fed = [f"frame {piece.frame_index}" if isinstance(piece, Image) else piece for piece in items]
        rendered = list(render_run(codec, task, outputs, config=config, digests=digests))
        assert rendered == [*fed, *controller.context.pending_ids]
    assert bool(num_cuts) == (strategy != "none")


def test_a_video_that_lost_frames_is_refused() -> None:
    controller = StreamController(Task(), config=StreamConfig(), codec=CODEC, tokens_per_frame=1)
    outputs = ScriptedRunner({}, num_frames=3).drive(controller.run())
    with pytest.raises(ValueError, match="only 2 frames"):
        render_run(CODEC, Task(), outputs, config=StreamConfig(), digests=["a", "b"])


def test_a_turn_is_question_pictures_answer() -> None:
    talk = Conversation().ask("hm?", pictures=["aa"]).answered("yes").ask("so?")
    assert render_conversation(CODEC, talk, base=(7,)) == (
        *(7, *CODEC.words("<hm?>"), "aa", RESPONSE, *CODEC.words("yes"), EOS),
        *(*CODEC.words("<so?>"), RESPONSE),
    )


def test_an_edit_leaves_the_earlier_conversation_as_a_branch() -> None:
    talk = Conversation().ask("one", pictures=["aa"]).answered("1").ask("two").answered("2")
    assert talk.edit(0, "uno").turns == (ChatTurn(question="uno", pictures=("aa",)),)
    assert len(talk.turns) == 2
    assert talk.regenerate().turns[-1] == ChatTurn(question="two")


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: Conversation().ask("  "),
        lambda: Conversation().answered("yes"),
        lambda: Conversation().regenerate(),
        lambda: Conversation().edit(0, "no"),
        lambda: Conversation().ask("one").ask("two"),
    ],
)
def test_a_mistake_is_refused(mistake: object) -> None:
    assert callable(mistake)
    with pytest.raises(ValueError, match=r"empty|no open|no turn|no answer"):
        mistake()

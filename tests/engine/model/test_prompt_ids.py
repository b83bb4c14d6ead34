"""Prompts of tokenizers that put a space before a text, or BOS first: the ids are those of the whole text."""

from collections.abc import Sequence
from typing import Any, get_args

import pytest
from transformers import PreTrainedTokenizerFast

from stepscope.engine.chat.prompts import Conversation, render_conversation
from stepscope.engine.config import StreamConfig
from stepscope.engine.control.prompt_codec import read_reply
from stepscope.engine.control.questions import StateReader
from stepscope.engine.model.hub.images import FrameFormat
from stepscope.engine.model.hub.prompt import HubPrompt
from stepscope.engine.model.prompt import find_answer_ids
from tests.support.streams.hub import LLAVA_TEMPLATE, ONEVISION_TEMPLATE
from tests.support.streams.sentencepiece import Kind, make_spaced_tokenizer

KINDS: tuple[Kind, ...] = get_args(Kind)
NUM_TOKENS = 3
_IM = ("<image>", "<|im_start|>", "<|im_end|>")
_CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEMPLATES = {"llava": LLAVA_TEMPLATE, "chat": _CHAT_TEMPLATE}


def make_prompt(tokenizer: PreTrainedTokenizerFast, frame_format: FrameFormat | None = None) -> HubPrompt:
    frame_format = frame_format or FrameFormat(model_type="llava")
    image_id = int(tokenizer.convert_tokens_to_ids("<video>" if frame_format.is_video else "<image>"))
    return HubPrompt(tokenizer, image_id=image_id, frame_format=frame_format)


def make_image(prompt: HubPrompt) -> list[int]:
    return [*prompt.opening, *[prompt.image_id] * NUM_TOKENS, *prompt.closing]


def say(role: str, *texts: str, images: int = 0) -> dict[str, Any]:
    return {
        "role": role,
        "content": [{"type": "image"}] * images + [{"type": "text", "text": text} for text in texts],
    }


def tokenize(prompt: HubPrompt, messages: Sequence[dict[str, Any]]) -> list[int]:
    """Return the ids of a conversation that ends with the generation prompt, as the processor makes them."""
    rendered = str(prompt.tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True))
    return list(prompt.tokenizer(rendered.replace("<image>", "<image>" * NUM_TOKENS))["input_ids"])


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["Is it done?", "(hm", "🚗 is", " twice  spaced"])
def test_ids_of_a_conversation_are_those_of_the_whole_text(kind: Kind, template: str, text: str) -> None:
    prompt = make_prompt(make_spaced_tokenizer(kind, special=_IM, template=TEMPLATES[template]))
    own = [*prompt.system(text)]
    own += prompt.before_image(after=own)
    own += [*make_image(prompt), *make_image(prompt), *prompt.question(text), *prompt.words(text.strip())]
    own += [*([prompt.eos_id] if prompt.feeds_eos else []), *prompt.stream_opening]
    own += [*prompt.before_image(after=own), *make_image(prompt), *prompt.response_opening]
    messages = [
        say("system", text),
        say("user", text, images=2),
        say("assistant", text.strip()),
        say("user", images=1),
    ]
    assert own == tokenize(prompt, messages)


@pytest.mark.parametrize("kind", KINDS)
def test_ids_of_user_turns_and_frame_texts_are_those_of_the_whole_text(kind: Kind) -> None:
    prompt = make_prompt(make_spaced_tokenizer(kind, special=_IM, template=LLAVA_TEMPLATE))
    own = [*prompt.system("Be brief.")]
    own += [*prompt.before_image(["What now?", "(and that)?"], "<0s-1s>", after=own), *make_image(prompt)]
    own += [*prompt.before_image([], "is", after=own), *make_image(prompt)]
    image = f"{'<image>' * NUM_TOKENS}\n"
    whole = f"Be brief. USER: What now?\n (and that)?\n <0s-1s> {image}is {image}"
    assert own == prompt.tokenizer(whole)["input_ids"]


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_conversation_without_pictures_is_the_published_one(kind: Kind, template: str) -> None:
    prompt = make_prompt(make_spaced_tokenizer(kind, special=_IM, template=TEMPLATES[template]))
    talk = Conversation().ask("Is it done?").answered("yes").ask("What?")
    own = render_conversation(prompt, talk, base=prompt.system("Be brief."))
    messages = [say("system", "Be brief."), say("user", "Is it done?"), say("assistant", "yes"), say("user", "What?")]
    assert list(own) == tokenize(prompt, messages)


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_in_texts_stay_text_behind_another(kind: Kind) -> None:
    prompt = make_prompt(make_spaced_tokenizer(kind, special=_IM, template=LLAVA_TEMPLATE))
    special = {prompt.image_id, prompt.tokenizer.bos_token_id, prompt.eos_id}
    assert not special & {*prompt.plain("<s></s><image>"), *prompt.plain("a <image>")}
    assert prompt.image_id in prompt.ids("a<image>")


@pytest.mark.parametrize(
    ("written", "adds_bos", "num_bos"),
    [("", True, 1), ("<s>", True, 1), ("{{ bos_token }}", True, 1), ("<s>", False, 1), ("", False, 0)],
)
def test_bos_is_there_once_whether_the_template_or_the_tokenizer_puts_it(
    written: str, adds_bos: bool, num_bos: int
) -> None:
    template = written + _CHAT_TEMPLATE
    prompt = make_prompt(make_spaced_tokenizer("prepend", special=_IM, template=template, adds_bos=adds_bos))
    bos = prompt.tokenizer.bos_token_id
    assert prompt.system("Be brief.").count(bos) == num_bos
    assert prompt.system("Be brief.")[0] == (bos if num_bos else prompt.tokenizer.convert_tokens_to_ids("<|im_start|>"))


@pytest.mark.parametrize("kind", KINDS)
def test_yes_is_read_with_and_without_a_space(kind: Kind) -> None:
    tokenizer = make_spaced_tokenizer(kind)
    space = "Ġ" if kind == "byte-level" else "▁"
    for answers, word in zip(find_answer_ids(tokenizer), ("yes", "no"), strict=True):
        wanted = {tokenizer.convert_tokens_to_ids(f"{space}{word}")}
        wanted |= {tokenizer.convert_tokens_to_ids(word)} & set(range(3, len(tokenizer)))
        assert wanted <= set(answers)


def test_an_answer_opens_with_the_generation_prompt_not_as_past_turns_do() -> None:
    special = ("<image>", "<video>", "<|im_start|>", "<|im_end|>")
    tokenizer = make_spaced_tokenizer("byte-level", special=special, template=ONEVISION_TEMPLATE)
    prompt = make_prompt(tokenizer, FrameFormat(model_type="llava_onevision", is_video=True))
    past = tokenizer.apply_chat_template([say("assistant", "yes")], tokenize=False)
    assert "assistant \n" in past
    opening = "<|im_end|><|im_start|>assistant\n"
    assert prompt.response_opening == prompt.ids(opening)
    assert prompt.question("What?")[-len(prompt.ids(opening)) :] == prompt.ids(opening)
    assert prompt.words("yes") == prompt.plain("yes"), "a reply is written as it is generated"


def test_a_template_without_a_generation_prompt_opens_answers_as_past_turns_do() -> None:
    template = _CHAT_TEMPLATE.partition("{% if add_gen")[0]
    prompt = make_prompt(make_spaced_tokenizer("prepend", special=_IM, template=template))
    assert prompt.response_opening == prompt.ids("<|im_end|>\n<|im_start|>assistant\n")


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("<think>\n", "\n</think>\n\n"),
        ("[THINK]", "[/THINK]\n\n"),
        ("<|channel>thought\n", "\n<channel|>\n\n"),
    ],
)
@pytest.mark.parametrize("is_special", [True, False])
def test_decisions_follow_the_end_of_a_reasoning_that_the_prompt_opens(
    opening: str, closing: str, is_special: bool
) -> None:
    template = _CHAT_TEMPLATE.replace("assistant\n", f"assistant\n{opening}")
    special = (*_IM, opening.strip(), closing.strip()) if is_special else _IM
    prompt = make_prompt(make_spaced_tokenizer("prepend", special=special, template=template))
    asked = prompt.question("Is it done?")
    assert asked[-len(prompt.ids(opening)) :] == prompt.ids(opening)
    assert prompt.without_thought == prompt.ids(closing)
    config = StreamConfig(decision_policy="state-token")
    for branch in StateReader(config, prompt).branches:
        assert branch[: len(prompt.response_opening)] == prompt.response_opening
        assert branch[len(prompt.response_opening) :][: len(prompt.without_thought)] == prompt.without_thought
    message, thought = read_reply(prompt, prompt.ids(f"hm{closing}Good."))
    assert (message, thought and thought.text) == ("Good.", "hm")
    plain = make_prompt(make_spaced_tokenizer("prepend", special=_IM, template=_CHAT_TEMPLATE))
    assert plain.without_thought == ()

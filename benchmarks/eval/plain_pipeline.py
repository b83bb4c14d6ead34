"""A stream as its definition reads, in plain transformers: one frame, then one token, per forward pass.

Nothing of the engine's inference is used, only its prompts, image sizes and records. Decord decodes every picture, each
frame is encoded when its turn comes, and PyTorch multiplies. It covers the policy ``heads``, greedy decoding and the
context strategy ``refresh``.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from transformers import DynamicCache, SmolVLMForConditionalGeneration

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.task import Task
from stepscope.engine.dialogue import apply_update, initial_state
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.preprocessing import normalize_images
from stepscope.engine.model.smolvlm import StreamingModel
from stepscope.engine.records import FrameOutput, frame_at
from stepscope.engine.video.decoders import decode_with_decord
from stepscope.engine.video.reader import Frame, sample_track
from stepscope.engine.video.track import find_track
from stepscope.eval.data.samples import Sample, build_task


class PlainPipeline:
    """Streams videos with the text and vision models of a SmolVLM checkpoint and its heads."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint, self.prompt = checkpoint, checkpoint.prompt
        self.vlm = SmolVLMForConditionalGeneration.from_pretrained(checkpoint.folder, dtype=torch.float32).eval()
        self.cache = DynamicCache()

    def run(self, sample: Sample, config: StreamConfig) -> list[FrameOutput]:
        """Stream a video from its file."""
        assert sample.video_path is not None
        frames = sample_track(
            find_track(sample.video_path),
            fps=sample.fps,
            size=None,
            excerpt=sample.excerpt,
            decoders=(decode_with_decord,),
        )
        return list(self._stream(frames, build_task(sample), config, fps=sample.fps))

    @torch.inference_mode()
    def _stream(
        self, frames: Iterator[Frame], task: Task, config: StreamConfig, *, fps: float
    ) -> Iterator[FrameOutput]:
        prompt, state = self.prompt, initial_state(task.steps, task.initial_state)
        self.cache, pending, is_fresh = DynamicCache(), list[int](), True
        for frame in frames:
            if is_fresh:
                self.cache, pending = DynamicCache(), [*prompt.schema(goal=task.goal, steps=task.steps, state=state)]
            texts = [turn.text for turn in task.user_turns if frame_at(turn.time_s, fps) == frame.index]
            hidden = self._forward([*pending, *prompt.user_turns(texts)], image=self._encode(frame))
            speak_prob, update_prob = (float(head(hidden).sigmoid()) for head in self._heads())
            pending, response, updates = [], None, list[str]()
            should_update = update_prob > config.update_threshold
            while should_update:
                text = self._generate([*pending, *prompt.update_opening], config.max_update_tokens)
                change = apply_update(state, text, illegal=config.illegal_updates)
                state, pending = dict(change.state), [prompt.eos_id]
                updates.append(text)
                should_update = len(updates) < config.max_updates_per_frame
                if should_update:
                    again, pending = self._forward(pending), []
                    should_update = float(self._heads()[1](again).sigmoid()) > config.update_threshold
            if speak_prob > config.speak_threshold:
                response = self._generate([*pending, *prompt.response_opening], config.max_new_tokens)
                pending = [prompt.eos_id]
            num_tokens = self.cache.get_seq_length() + len(pending)
            yield FrameOutput(
                frame_index=frame.index,
                time_s=frame.time_s,
                speak_prob=speak_prob,
                update_prob=update_prob,
                response=response,
                updates=tuple(updates),
                dst_state=state,
                cache_tokens=num_tokens,
                refreshed=is_fresh and frame.index > 0,
                latency_ms=0.0,
            )
            is_fresh = num_tokens >= config.max_seq_len - config.reserved_seq_len

    def _encode(self, frame: Frame) -> Tensor:
        """Return the embedding of a frame, ``[1, 1, D]``."""
        model, parts = self.checkpoint.model, self.vlm.model
        pixels = normalize_images(
            [frame.image], size=(model.image_size, model.image_size), normalization=self.checkpoint.normalization
        )
        tokens: Tensor = parts.connector(parts.vision_model(pixel_values=pixels).last_hidden_state)
        return tokens.mean(1, keepdim=True)

    def _forward(self, ids: Sequence[int], *, image: Tensor | None = None) -> Tensor:
        """Feed tokens and an image after the cached tokens; return the last hidden state ``[D]``."""
        text_model = self.vlm.model.text_model
        inputs = text_model.get_input_embeddings()(torch.tensor([ids], dtype=torch.long))
        if image is not None:
            inputs = torch.cat((inputs, image), dim=1)
        output = text_model(inputs_embeds=inputs, past_key_values=self.cache, use_cache=True)
        hidden: Tensor = output.last_hidden_state[0, -1]
        return hidden

    def _generate(self, ids: Sequence[int], max_tokens: int) -> str:
        """Write a text after its opening; its end is not fed."""
        written: list[int] = []
        while len(written) < max_tokens:
            logits = self.vlm.lm_head(self._forward(ids)).float()
            logits[list(self.prompt.suppress_tokens)] = -torch.inf
            token = int(logits.argmax())
            if token == self.prompt.eos_id:
                break
            written.append(token)
            ids = [token]
        else:
            self._forward(ids)
        return self.prompt.text(written)

    def _heads(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        model = self.checkpoint.model
        assert isinstance(model, StreamingModel)
        return model.speaking_decision_head, model.dst_update_head

"""The voice of an answer on the WebSocket: sound for each sentence as soon as it is complete."""

import asyncio
import base64

from stepscope.engine.speech.espeak import MAX_CHARS, SentenceBuffer, synthesize


class AnswerVoice:
    """Speaks the sentences of one answer, in order. Its methods do not block the event loop."""

    def __init__(self) -> None:
        self._sentences = SentenceBuffer()

    async def push(self, text: str) -> list[str]:
        """Return the sound of each sentence that a part of the answer completes, as PCM in base64.

        Raises ``SpeechError`` if there is no speech on this machine.
        """
        return await _speak(self._sentences.push(text))

    async def flush(self) -> list[str]:
        """Return the sound of the rest of the answer; errors as of ``push``."""
        return await _speak(self._sentences.flush())


async def _speak(sentences: list[str]) -> list[str]:
    spoken = [await asyncio.to_thread(synthesize, sentence[:MAX_CHARS]) for sentence in sentences]
    return [base64.b64encode(pcm).decode() for pcm in spoken if pcm]

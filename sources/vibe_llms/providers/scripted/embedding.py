"""The embedder ``words``: vectors that count the words of a text, for tests and demonstrations.

Texts that share words have similar vectors; their meaning has no influence.
"""

from __future__ import annotations

import re
from array import array
from hashlib import blake2b
from math import sqrt
from typing import Final

from vibe_llms.dialects.embeddings.results import produce_vectors
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.losses import Loss, LossKind, refuse_losses
from vibe_llms.messages.vectors import EmbeddingRequest, Vectors
from vibe_llms.models.descriptors import ModelDescriptor

DIMENSIONS: Final = 64
_WORD: Final = re.compile(r"\w+")


class WordsEmbedder:
    """An embedder that counts words: each word adds to the number that its hash selects."""

    max_inputs = 256
    max_bytes = 1_000_000

    def __init__(self, descriptor: ModelDescriptor) -> None:
        self._descriptor = descriptor

    @property
    def descriptor(self) -> ModelDescriptor:
        """The model's name and attributes."""
        return self._descriptor

    async def call(self, request: EmbeddingRequest) -> Vectors:
        """Return the vectors of the texts, of length 1. Raises TranslationLossError."""
        losses: tuple[Loss, ...] = ()
        if request.purpose is not None:
            reason = "the embedder treats all texts alike"
            losses = (Loss(kind=LossKind.DROPPED, path="purpose", reason=reason),)
        if request.strict:
            refuse_losses(losses)
        width = request.dimensions or DIMENSIONS
        words = [_WORD.findall(text.lower()) for text in request.texts]
        usage = Usage(input_tokens=sum(map(len, words)))
        rows = [_count(each, width) for each in words]
        return produce_vectors(rows, request, self._descriptor, "scripted", usage, losses=losses)


def _count(words: list[str], width: int) -> array[float]:
    row = array("f", bytes(4 * width))
    for word in words:
        number = int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "big")
        row[number % width] += 1.0
    length = sqrt(sum(value * value for value in row)) or 1.0
    return array("f", [value / length for value in row])

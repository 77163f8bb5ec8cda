"""Formats of calls outside of conversations, such as embeddings: one request, one answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.call_results import CallResult
from vibe_llms.messages.losses import Translation
from vibe_llms.models.descriptors import ModelDescriptor


class CallRequest(Protocol):
    """Request of a call: an instance of a frozen attrs class."""

    @property
    def strict(self) -> bool:
        """Whether losses in its translation raise an error."""


In = TypeVar("In", bound=CallRequest)
Out = TypeVar("Out", bound=CallResult)


@frozen(kw_only=True)
class CallForm(Generic[In, Out]):
    """A vendor's format for one kind of call, with the functions that translate to and from it.

    Attributes:
        path: The path after the base URL.
        protocol: The protocol whose bodies the vendor accepts unchanged; empty if it has quirks.
        most_inputs: Maximum inputs of one call.
        most_bytes: Maximum size of the inputs of one call.
        write: Returns the body for a request. Raises RequestError.
        read: Returns the result from the body of an answer. Raises ValueError for an invalid body;
            its message contains no secrets and no long texts.
    """

    path: str
    protocol: str = ""
    most_inputs: int
    most_bytes: int = 500_000
    write: Callable[[In, ModelDescriptor], Translation[JsonObject]]
    read: Callable[[bytes, In, ModelDescriptor], Out]


@frozen(kw_only=True)
class ClientForm(Generic[In, Out]):
    """The format for one kind of call that the gateway's clients use.

    Attributes:
        protocol: The protocol; see :attr:`CallForm.protocol`.
        read: Returns the request in a client's body. Raises RequestError.
        write: Returns the body of an answer. Takes the result, the client's body and the model's
            name.
    """

    protocol: str
    read: Callable[[Mapping[str, Any]], Translation[In]]
    write: Callable[[Out, Mapping[str, Any], str], JsonObject]

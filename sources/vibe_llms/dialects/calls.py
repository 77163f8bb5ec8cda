"""Calls that a vendor answers in one piece, outside of a conversation: embeddings, for example."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.call_results import CallResult
from vibe_llms.messages.losses import Translation
from vibe_llms.models.descriptors import ModelDescriptor


class CallRequest(Protocol):
    """A call: a frozen attrs value."""

    @property
    def strict(self) -> bool:
        """Whether a loss of the translation is an error."""


In = TypeVar("In", bound=CallRequest)
Out = TypeVar("Out", bound=CallResult)


@frozen(kw_only=True)
class CallForm(Generic[In, Out]):
    """A vendor's form of one kind of call.

    Attributes:
        path: The path after the base URL.
        protocol: The protocol whose bodies the vendor takes unchanged; empty if it has quirks.
        most_inputs: Maximum inputs of one call.
        most_bytes: Maximum size of the inputs of one call.
        write: Returns the body of a call. Raises RequestError.
        read: Returns the result of a body that answers the call. Raises ValueError for an invalid
            body, without secrets or long texts.
    """

    path: str
    protocol: str = ""
    most_inputs: int
    most_bytes: int = 500_000
    write: Callable[[In, ModelDescriptor], Translation[JsonObject]]
    read: Callable[[bytes, In, ModelDescriptor], Out]


@frozen(kw_only=True)
class ClientForm(Generic[In, Out]):
    """The form of one kind of call in a protocol of clients.

    Attributes:
        protocol: The protocol; see :attr:`CallForm.protocol`.
        read: Returns the call in a client's body. Raises RequestError.
        write: Returns the body of a result, from the client's body and the model's name.
    """

    protocol: str
    read: Callable[[Mapping[str, Any]], Translation[In]]
    write: Callable[[Out, Mapping[str, Any], str], JsonObject]

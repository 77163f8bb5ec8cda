"""What travels besides requests: answers without the request, and how a stream begins and ends."""

from __future__ import annotations

from typing import Final

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.losses import Loss
from vibe_llms.messages.requests import ResponseMetadata

OPENING: Final = "converse"
"""The name of the first event of a stream, which has the version and no more."""


@frozen(kw_only=True)
class Ending:
    """How an answer came to be: the end of a stream, in which the rest was told before.

    Attributes:
        metadata: As the side that answered has it.
        losses: All of them, those that were told as events included.
    """

    metadata: ResponseMetadata
    losses: tuple[Loss, ...] = ()


@frozen(kw_only=True)
class AnswerBody:
    """A whole answer; who asked has the request.

    Attributes:
        version: Of the protocol.
        canisters: What the model said.
    """

    version: int
    canisters: tuple[AnyCanister, ...]
    metadata: ResponseMetadata
    losses: tuple[Loss, ...] = ()

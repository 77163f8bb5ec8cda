"""Formats of answers without the request, and of the first and last event of a stream."""

from __future__ import annotations

from typing import Final

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.losses import Loss
from vibe_llms.messages.requests import ResponseMetadata

OPENING: Final = "converse"
"""The name of the first event of a stream, which only has the version."""


@frozen(kw_only=True)
class Ending:
    """The end of a stream, whose contents were sent before.

    Attributes:
        metadata: The metadata of the answer on the other side.
        losses: All losses, including those that were sent as events.
    """

    metadata: ResponseMetadata
    losses: tuple[Loss, ...] = ()


@frozen(kw_only=True)
class AnswerBody:
    """A complete answer; the client has the request.

    Attributes:
        version: Version of the protocol.
        canisters: The canisters of the model.
    """

    version: int
    canisters: tuple[AnyCanister, ...]
    metadata: ResponseMetadata
    losses: tuple[Loss, ...] = ()

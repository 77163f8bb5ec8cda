"""What an exporter needs to be given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.messages.canisters import AnyCanister


class Exportable(Protocol):
    """What has a name, metadata and canisters, inherited ones included: a ``Conversation``."""

    @property
    def id(self) -> str:
        """Its identity."""

    @property
    def metadata(self) -> ConversationMetadata:
        """What is known about it."""

    @property
    def canisters(self) -> Sequence[AnyCanister]:
        """All that was said, oldest first."""

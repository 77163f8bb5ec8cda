"""Protocol of the conversations that exporters write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.messages.canisters import AnyCanister


class Exportable(Protocol):
    """A conversation that can be exported, such as a :class:`.Conversation`."""

    @property
    def id(self) -> str:
        """Id of the conversation."""

    @property
    def metadata(self) -> ConversationMetadata:
        """Metadata of the conversation."""

    @property
    def canisters(self) -> Sequence[AnyCanister]:
        """All canisters, including inherited canisters, oldest first."""

"""Positions of responses in the conversation store.

A response is a point in a conversation. A request that continues the end of a conversation is
appended to the conversation. A request that continues an earlier point creates a fork.
"""

from __future__ import annotations

from collections.abc import Sequence

from vibe_llms.conversations.canister_media import hydrate
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.stores.interfaces import ConversationStore, Position
from vibe_llms.exceptions import StaleConversationError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.identities import produce_identity

TAG = "gateway"
"""Tag of conversations that clients have created."""


@frozen(kw_only=True)
class Chain:
    """The conversation that a request continues.

    Attributes:
        conversation: Id in the store; empty if it continues nothing.
        canisters: The conversation up to this point.
        position: End of the conversation, if that is this point; ``None`` if the conversation has
            been continued since.
        is_shared: Whether it is a conversation that the client has created: all responses are
            appended to it, and none forks it.
    """

    conversation: str = ""
    canisters: tuple[AnyCanister, ...] = ()
    position: Position | None = None
    is_shared: bool = False


def read_chain(store: ConversationStore, conversation: str, last: str) -> Chain:
    """Read a conversation up to a canister, with its media.

    Raises:
        StoreError: The conversation is missing or damaged.
    """
    history = store.read(conversation)
    count = next((index + 1 for index, each in enumerate(history.canisters) if each.id == last), 0)
    return Chain(
        conversation=conversation,
        canisters=hydrate(history.canisters[:count], store.contents),
        position=history.position if count == len(history.canisters) else None,
    )


def read_shared(store: ConversationStore, conversation: str) -> Chain:
    """Read a client's whole conversation. Raises StoreError."""
    history = store.read(conversation)
    return Chain(
        conversation=conversation,
        canisters=hydrate(history.canisters, store.contents),
        is_shared=True,
    )


def extend_chain(
    store: ConversationStore, chain: Chain, canisters: Sequence[AnyCanister], model: str
) -> Chain:
    """Append canisters to the chain or to a fork; return the new chain.

    Raises:
        StoreError: The canisters could not be stored.
    """
    if chain.is_shared:
        store.append(chain.conversation, canisters)
        return _extend(chain, chain.conversation, canisters, None)
    if not chain.conversation:
        identity = produce_identity()
        position = store.create(identity, ConversationMetadata(model=model, tags=(TAG,)))
        # The canisters in the memory of a socket are not in the store yet.
        everything = (*chain.canisters, *canisters)
        position = store.append(identity, everything, after=position).position
        return _extend(chain, identity, canisters, position)
    if chain.position is not None:
        try:
            receipt = store.append(chain.conversation, canisters, after=chain.position)
        except StaleConversationError:
            pass  # the conversation was continued by another request
        else:
            return _extend(chain, chain.conversation, canisters, receipt.position)
    fork = store.fork(chain.conversation, from_index=len(chain.canisters))
    receipt = store.append(fork, canisters)
    return _extend(chain, fork, canisters, receipt.position)


def _extend(
    chain: Chain, conversation: str, canisters: Sequence[AnyCanister], position: Position | None
) -> Chain:
    return Chain(
        conversation=conversation,
        canisters=(*chain.canisters, *canisters),
        position=position,
        is_shared=chain.is_shared,
    )

"""Where a response stands in the conversation store: behind which canisters, and where it goes on.

A response is a point in a conversation. One that goes on from the end of a conversation is
appended to it; one that goes on from an earlier point forks it there.
"""

from __future__ import annotations

from collections.abc import Sequence

from vibe_llms.conversations.contents import hydrate
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.stores.interfaces import ConversationStore, Position
from vibe_llms.exceptions import StaleConversationError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.identities import produce_identity

TAG = "gateway"
"""Conversations that clients have begun are tagged with this."""


@frozen(kw_only=True)
class Chain:
    """What was said before a response.

    Attributes:
        conversation: In the store; empty where nothing was said before.
        canisters: Of it, up to the point from which the response goes on.
        position: Its end, where that is this point; ``None`` where more was said since.
        is_shared: Whether all responses go to its end, as those of a client's conversation do.
    """

    conversation: str = ""
    canisters: tuple[AnyCanister, ...] = ()
    position: Position | None = None
    is_shared: bool = False


def read_chain(store: ConversationStore, conversation: str, last: str) -> Chain:
    """Reads what was said up to a canister, with the bytes of its media.

    Raises:
        StoreError: The conversation is gone, or damaged.
    """
    history = store.read(conversation)
    count = next((index + 1 for index, each in enumerate(history.canisters) if each.id == last), 0)
    return Chain(
        conversation=conversation,
        canisters=hydrate(history.canisters[:count], store.contents),
        position=history.position if count == len(history.canisters) else None,
    )


def read_shared(store: ConversationStore, conversation: str) -> Chain:
    """Reads a client's conversation whole. Raises StoreError."""
    history = store.read(conversation)
    return Chain(
        conversation=conversation,
        canisters=hydrate(history.canisters, store.contents),
        is_shared=True,
    )


def go_on(
    store: ConversationStore, chain: Chain, canisters: Sequence[AnyCanister], model: str
) -> Chain:
    """Stores what is said next, where it belongs; returns the chain with it.

    Raises:
        StoreError: It could not be stored.
    """
    if chain.is_shared:
        store.append(chain.conversation, canisters)
        return _extend(chain, chain.conversation, canisters, None)
    if not chain.conversation:
        identity = produce_identity()
        position = store.create(identity, ConversationMetadata(model=model, tags=(TAG,)))
        # What a socket alone remembers was stored nowhere yet.
        said = (*chain.canisters, *canisters)
        position = store.append(identity, said, after=position).position
        return _extend(chain, identity, canisters, position)
    if chain.position is not None:
        try:
            receipt = store.append(chain.conversation, canisters, after=chain.position)
        except StaleConversationError:
            pass  # another response went on from here at the same time, or a person did
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

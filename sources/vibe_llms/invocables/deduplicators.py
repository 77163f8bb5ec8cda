"""Deduplication: results that later results supersede, and requests without them.

The stored conversation is never changed. A request is trimmed only near the window: a vendor's
prompt cache holds the earlier requests, and a change in the middle invalidates it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import attrs

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.argument_faults import ArgumentFault
from vibe_llms.invocables.calls import canonicalize, read_arguments
from vibe_llms.messages.canisters import AnyCanister, Owner, ResultCanister
from vibe_llms.messages.contents import MEDIA_CLASSES, TextualContent
from vibe_llms.messages.losses import Loss, LossKind, Translation
from vibe_llms.messages.views import Pair, pairs_of

NEAR_SHARE: Final = 0.8
"""Share of the window from which a conversation counts as near it."""


class Deduplicator(Protocol):
    """Identifies the subject of a call's result."""

    def identify(self, name: str, arguments: JsonObject) -> str | None:
        """Return a key for the subject of a call's result; ``None`` without one.

        Of the results with one subject, the last supersedes all earlier ones, even from different
        invocables.
        """
        ...


@frozen
class ByArguments:
    """A call supersedes earlier ones of the same invocable with the same arguments."""

    def identify(self, name: str, arguments: JsonObject) -> str | None:
        """Return the call itself, as text."""
        return f"{name}:{canonicalize(arguments)}"


@frozen
class ByArgument:
    """A call supersedes earlier ones about the same subject, which one argument names.

    Attributes:
        argument: Its name, such as ``path``.
        subject: The kind of the subject, such as ``file``, which several invocables may share.
    """

    argument: str
    subject: str

    def identify(self, name: str, arguments: JsonObject) -> str | None:
        """Return the subject; ``None`` without the argument."""
        if self.argument not in arguments:
            return None
        return f"{self.subject}:{canonicalize({'': arguments[self.argument]})}"


def trim_stale(
    canisters: Sequence[AnyCanister],
    access: Callable[[str], Deduplicator | None],
    *,
    used_tokens: int,
    window_tokens: int,
    near_share: float = NEAR_SHARE,
) -> Translation[tuple[AnyCanister, ...]]:
    """Return the conversation to send: superseded results as one line each.

    Args:
        canisters: The conversation, which is not modified.
        access: Returns the deduplicator of an invocable by its name, if it has one.
        used_tokens: Tokens of the conversation.
        window_tokens: Size of the model's window.
        near_share: Share of the window below which nothing is trimmed.

    Returns:
        The canisters, with one loss (withheld) for each trimmed result.
    """
    if used_tokens < window_tokens * near_share:
        return Translation(tuple(canisters))
    stale = _find_stale(canisters, access)
    sent = list(canisters)
    losses = []
    for index, canister in enumerate(canisters):
        newer = stale.get(canister.id)
        if newer is None or not isinstance(canister, ResultCanister):
            continue
        note = (
            f"[left out: the later call {newer} of {canister.name or 'it'} shows the current state]"
        )
        # A note in its place would be longer than the result.
        if _measure(canister) <= len(note):
            continue
        sent[index] = attrs.evolve(canister, content=note)
        reason = f"a later result ({newer}) shows the current state of the same thing"
        path = f"canisters[{index}]"
        losses.append(Loss(kind=LossKind.WITHHELD, path=path, reason=reason))
    return Translation(tuple(sent), losses=tuple(losses))


def _find_stale(
    canisters: Sequence[AnyCanister], access: Callable[[str], Deduplicator | None]
) -> dict[str, str]:
    """Return, by the ids of superseded results, the invocation that superseded them."""
    newest: dict[str, str] = {}
    stale: dict[str, str] = {}
    # From the end: the newest result comes first, and supersedes the others.
    for pair in reversed(pairs_of(canisters)):
        subject = _identify(pair, access)
        if subject is None or pair.result is None:
            continue
        if subject in newest:
            stale[pair.result.id] = newest[subject]
        elif not pair.result.is_error:  # a failure supersedes nothing
            newest[subject] = pair.invocation.invocation_id
    return stale


def _identify(pair: Pair, access: Callable[[str], Deduplicator | None]) -> str | None:
    invocation = pair.invocation
    if invocation.owner is not Owner.OURS:
        return None
    deduplicator = access(invocation.name)
    arguments = read_arguments(invocation) if deduplicator is not None else None
    if deduplicator is None or arguments is None or isinstance(arguments, ArgumentFault):
        return None
    try:
        return deduplicator.identify(invocation.name, arguments)
    except RequestError:
        return None  # arguments that nest too deeply equal no others


def _measure(canister: ResultCanister) -> int:
    """Return the characters of a result; a picture counts as long."""
    return sum(
        len(item.text) if isinstance(item, TextualContent) else 10_000
        for item in canister.content
        if isinstance(item, (TextualContent, *MEDIA_CLASSES))
    )

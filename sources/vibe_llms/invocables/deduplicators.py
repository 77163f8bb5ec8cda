"""Which earlier results a later one makes stale, and sending a conversation without them.

What is stored is never touched. What is sent is trimmed only near the window: a vendor's prompt
cache holds what was sent before, and a change in the middle throws it away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import attrs

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.calls import canonicalize, read_arguments
from vibe_llms.invocables.validation import ArgumentFault
from vibe_llms.messages.canisters import AnyCanister, Owner, ResultCanister
from vibe_llms.messages.contents import MEDIA_CLASSES, TextualContent
from vibe_llms.messages.losses import Loss, LossKind, Translation
from vibe_llms.messages.views import Pair, pairs_of

NEAR_SHARE: Final = 0.8
"""From which share of the window on a conversation is near it."""


class Deduplicator(Protocol):
    """Tells what the result of a call is about."""

    def identify(self, name: str, arguments: JsonObject) -> str | None:
        """Returns a word for the subject of a call's result; ``None`` where it has none.

        Of the results with one subject, the last makes all earlier ones stale, whichever
        invocables they come from.
        """
        ...


@frozen
class ByArguments:
    """A call makes earlier ones of the same invocable with the same arguments stale."""

    def identify(self, name: str, arguments: JsonObject) -> str | None:
        """Returns the call itself, as text."""
        return f"{name}:{canonicalize(arguments)}"


@frozen
class ByArgument:
    """A call makes earlier ones about the same thing stale: one argument says which thing.

    Attributes:
        argument: Its name, such as ``path``.
        subject: A word for what it names, such as ``file``, which several invocables may share.
    """

    argument: str
    subject: str

    def identify(self, name: str, arguments: JsonObject) -> str | None:
        """Returns the thing; none where the argument is not given."""
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
    """Returns what to send in place of a conversation: stale results as one line each.

    Args:
        canisters: The conversation, which stays as it is.
        access: Returns the deduplicator of an invocable by its name, where it has one.
        used_tokens: What the conversation occupies.
        window_tokens: What the model can take.
        near_share: The share of the window below which nothing is trimmed.

    Returns:
        The canisters, with one loss (withheld) for each result that was trimmed.
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
        # A note in its place would be longer than it is.
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
    """Returns, by the ids of stale results, the invocation that made them so."""
    newest: dict[str, str] = {}
    stale: dict[str, str] = {}
    # From the end: the newest is met first, and is what the others are stale against.
    for pair in reversed(pairs_of(canisters)):
        subject = _identify(pair, access)
        if subject is None or pair.result is None:
            continue
        if subject in newest:
            stale[pair.result.id] = newest[subject]
        elif not pair.result.is_error:  # a failure tells nothing that would replace anything
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
        return None  # arguments that nest too deeply are like no others


def _measure(canister: ResultCanister) -> int:
    """Returns the characters of a result; a picture counts as long."""
    return sum(
        len(item.text) if isinstance(item, TextualContent) else 10_000
        for item in canister.content
        if isinstance(item, (TextualContent, *MEDIA_CLASSES))
    )

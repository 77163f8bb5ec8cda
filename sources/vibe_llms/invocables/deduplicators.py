"""Deduplication: leave out results that later results supersede.

Only requests are trimmed, never the stored conversation, and only when the window is nearly full: a
change in the middle of a conversation invalidates the vendor's prompt cache.
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
"""Used share of the window from which requests are trimmed."""


class Deduplicator(Protocol):
    """Identifies the subject of a call's result."""

    def identify(self, name: str, arguments: JsonObject) -> str | None:
        """Return a key for the subject of a call's result; ``None`` without one.

        The last result about a subject supersedes all earlier results, even of other invocables.
        """
        ...


@frozen
class ByArguments:
    """A call supersedes earlier calls of its invocable with equal arguments."""

    def identify(self, name: str, arguments: JsonObject) -> str | None:
        """Return the call itself, as text."""
        return f"{name}:{canonicalize(arguments)}"


@frozen
class ByArgument:
    """A call supersedes earlier calls about its subject, which one argument names.

    Attributes:
        argument: The name of the argument, such as ``path``.
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
    """Return the conversation to send, with one line in place of each superseded result.

    Args:
        canisters: The conversation, which is not modified.
        access: Returns the deduplicator of an invocable, given its name; ``None`` without one.
        used_tokens: Tokens of the conversation.
        window_tokens: Size of the model's window.
        near_share: Share of the window below which nothing is trimmed.

    Returns:
        The canisters, with one loss (withheld) for each trimmed result.
    """
    if used_tokens < window_tokens * near_share:
        return Translation(tuple(canisters))
    stale = _find_stale(canisters, access)
    trimmed = list(canisters)
    losses = []
    for index, canister in enumerate(canisters):
        newer = stale.get(canister.id)
        if newer is None or not isinstance(canister, ResultCanister):
            continue
        note = (
            f"[left out: the later call {newer} of {canister.name or 'it'} shows the current state]"
        )
        # Keep a result that is shorter than the note.
        if _measure(canister) <= len(note):
            continue
        trimmed[index] = attrs.evolve(canister, content=note)
        reason = f"a later result ({newer}) shows the current state of the same thing"
        path = f"canisters[{index}]"
        losses.append(Loss(kind=LossKind.WITHHELD, path=path, reason=reason))
    return Translation(tuple(trimmed), losses=tuple(losses))


def _find_stale(
    canisters: Sequence[AnyCanister], access: Callable[[str], Deduplicator | None]
) -> dict[str, str]:
    """Map the id of each superseded result to the invocation with the newer one."""
    newest: dict[str, str] = {}
    stale: dict[str, str] = {}
    # From the end, because the newest result supersedes the others.
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
        return None  # arguments that are nested too deeply have no canonical form


def _measure(canister: ResultCanister) -> int:
    """Return the characters of a result; a picture counts as long."""
    return sum(
        len(item.text) if isinstance(item, TextualContent) else 10_000
        for item in canister.content
        if isinstance(item, (TextualContent, *MEDIA_CLASSES))
    )

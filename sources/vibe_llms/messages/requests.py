"""What is asked of a model, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs

from vibe_llms.exceptions import RequestError
from vibe_llms.messages.canisters import (
    CANISTER_CLASSES,
    AnyCanister,
    InvocationCanister,
    Origin,
    StopReason,
    Usage,
)
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Loss
from vibe_llms.plain import JsonObject, JsonValue

ANSWERABLE_ROLES = frozenset({"user", "document", "supervisor", "result"})
"""The roles of a last canister that leaves something to be answered."""

_KNOWN_CLASSES = tuple(CANISTER_CLASSES.values())


def _freeze_canisters(items: Iterable[AnyCanister]) -> tuple[AnyCanister, ...]:
    return tuple(items)


def _freeze_invocables(
    items: Iterable[InvocableDescription],
) -> tuple[InvocableDescription, ...]:
    return tuple(items)


def _freeze_losses(items: Iterable[Loss]) -> tuple[Loss, ...]:
    return tuple(items)


def _sort_controls(controls: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return dict(sorted(controls.items()))


@attrs.frozen(kw_only=True)
class Request:
    """One call of a model, without anything of the vendor's in it.

    Attributes:
        canisters: The conversation so far, oldest first.
        model: The model's name within its provider; empty for the provider's default.
        controls: Values by the names of control definitions, such as ``temperature``.
        invocables: What the model may invoke.
        invocation_choice: ``auto``, ``none``, ``required``, or the name of one invocable.
        schema: A JSON Schema to which the answer must conform.
        continuation: The model shall go on with its own last turn (a paused turn, a prefill).
        strict: A translation that would lose anything is an error.
        conversation_id: Of which conversation this is part; no part of the meaning.

    Raises:
        RequestError: There is nothing to answer.
    """

    canisters: tuple[AnyCanister, ...] = attrs.field(converter=_freeze_canisters)
    model: str = ""
    controls: Mapping[str, JsonValue] = attrs.field(factory=dict, converter=_sort_controls)
    invocables: tuple[InvocableDescription, ...] = attrs.field(
        default=(), converter=_freeze_invocables
    )
    invocation_choice: str = "auto"
    schema: JsonObject | None = None
    continuation: bool = False
    strict: bool = False
    conversation_id: str = ""

    __hash__ = None  # type: ignore[assignment]  # controls are a dictionary; digest() is the key

    def __attrs_post_init__(self) -> None:
        for index, canister in enumerate(self.canisters):
            if canister.__class__ not in _KNOWN_CLASSES:
                raise RequestError(
                    path=f"canisters[{index}]",
                    detail=f"{canister!r} is not a canister.",
                    remedy=f"Use one of {', '.join(c.__name__ for c in _KNOWN_CLASSES)}.",
                )
        _ensure_answerable(self.canisters, continuation=self.continuation)

    def digest(self) -> str:
        """Names the meaning of the request: the same without ids and timestamps. A cache key.

        Returns:
            A SHA-256, in lower-case hexadecimal digits.
        """
        from vibe_llms.messages.codec import digest_request

        return digest_request(self)


def _ensure_answerable(canisters: Sequence[AnyCanister], *, continuation: bool) -> None:
    if not canisters:
        raise RequestError(
            path="canisters",
            detail="The request has no canisters.",
            remedy="Begin with a UserCanister.",
        )
    last = canisters[-1]
    if continuation or last.role in ANSWERABLE_ROLES:
        return
    remedy = (
        "Append the ResultCanister of the invocation."
        if isinstance(last, InvocationCanister)
        else "Append a UserCanister, or say continuation=True to let the model go on."
    )
    raise RequestError(
        path=f"canisters[{len(canisters) - 1}]",
        detail=f"The last canister ({last.role}) leaves nothing to answer.",
        remedy=remedy,
    )


@attrs.frozen(kw_only=True)
class ResponseMetadata:
    """How a response came to be.

    Attributes:
        origin: As on the canisters of the response.
        duration_seconds: From sending to the end; ``first_seconds`` to the first content.
        attempts: How often the request was sent; 1 without retries.
        request_id: The vendor's name for the exchange, for its support.
    """

    origin: Origin
    duration_seconds: float = 0.0
    first_seconds: float | None = None
    attempts: int = 1
    request_id: str | None = None

    @property
    def usage(self) -> Usage | None:
        """What the response used, where the vendor said."""
        return self.origin.usage

    @property
    def stop_reason(self) -> StopReason:
        """Why the model stopped."""
        return self.origin.stop_reason


@attrs.frozen(kw_only=True)
class Response:
    """What came of a request: the canisters to append, how, and what was lost on the way."""

    request: Request
    canisters: tuple[AnyCanister, ...] = attrs.field(converter=_freeze_canisters)
    metadata: ResponseMetadata
    losses: tuple[Loss, ...] = attrs.field(default=(), converter=_freeze_losses)

    __hash__ = None  # type: ignore[assignment]  # a request is not hashable either

    @property
    def conversation(self) -> tuple[AnyCanister, ...]:
        """The latest state of the conversation: what was asked, then what was answered."""
        return self.request.canisters + self.canisters

    @property
    def text(self) -> str:
        """All text of the answer, without reasoning."""
        from vibe_llms.messages.views import text_of

        return text_of(self.canisters)

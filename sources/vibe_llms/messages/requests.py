"""Requests to a model, and its responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, TypedDict

import attrs

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.foundation.reprs import represent
from vibe_llms.messages.canisters import (
    CANISTER_CLASSES,
    AnyCanister,
    InvocationCanister,
    Origin,
    Owner,
    ResultCanister,
    StopReason,
    Usage,
)
from vibe_llms.messages.contents import CacheHint, Native, RefusalContent
from vibe_llms.messages.descriptions import CHOICES, InvocableDescription, describe_server_tool
from vibe_llms.messages.endings import Shortfall, find_shortfall
from vibe_llms.messages.field_types import conform_fields, ensure_members, evolve_unchecked
from vibe_llms.messages.json_values import ensure_controls, ensure_schema, write_plain
from vibe_llms.messages.losses import Loss, ensure_losses
from vibe_llms.messages.server_tools import ServerTool
from vibe_llms.messages.views import add_usages, answer_text

ANSWERABLE_ROLES = frozenset({"user", "document", "supervisor", "result"})
"""Roles of a last canister that a model can answer."""

WindowPolicy: TypeAlias = Literal["stop", "drop", "summarize", "vendor"]
"""Handling of the oldest turns of a conversation that exceeds the model's window."""

SHORTENED_WINDOWS: Final = frozenset({"drop", "summarize"})
"""Policies by which a request is shortened before it is sent."""

_KNOWN_CLASSES = tuple(CANISTER_CLASSES.values())


def _ensure_canisters(canisters: Iterable[AnyCanister]) -> tuple[AnyCanister, ...]:
    return ensure_members(canisters, _KNOWN_CLASSES, "canisters")


def _ensure_invocables(
    invocables: Iterable[InvocableDescription | ServerTool | CacheHint],
) -> tuple[InvocableDescription, ...]:
    """Return descriptions as a tuple; a mark among them belongs to the description before it."""
    described: list[Any] = []
    for each in invocables:
        if isinstance(each, CacheHint) and described:
            described[-1] = attrs.evolve(described[-1], cache=each)
        elif isinstance(each, ServerTool):
            described.append(describe_server_tool(each))
        else:
            described.append(each)
    return ensure_members(described, (InvocableDescription,), "invocables")


@frozen(kw_only=True, slots=False, field_transformer=conform_fields)
class Request:
    """A request to a model, independent of the vendor.

    Attributes:
        canisters: The conversation so far, oldest first.
        model: Address of the model, ``provider:name``; may be empty. Part of the digest.
        controls: Parameters by name, such as ``temperature``.
        invocables: The tools that the model can call; a :class:`ServerTool` is described.
        invocation_choice: ``auto``, ``none``, ``required``, or the name of one invocable.
        schema: A JSON Schema to which the answer must conform. The order of its properties is
            part of it: a model held to a schema by a grammar answers in that order.
        continuation: Let the model continue its own last turn (a paused turn, a prefill).
        strict: Raise an error if the translation loses anything.
        lenient: Replace unsupported parameters by the nearest supported value, or omit them, and
            report a loss; otherwise they are an error.
        window: Handling of conversations that exceed the context window: ``stop`` raises an error,
            ``drop`` leaves out the oldest turns, ``summarize`` sends the model's summary of them,
            ``vendor`` lets the vendor compact the conversation if it can. The conversation does
            not change; omitted turns are reported as losses.
        native: Parameters of one protocol without a common name, as a JSON object; withheld from
            other protocols. Without a protocol, they are for every vendor.
        conversation_id: The conversation that it belongs to; not part of the digest.
        cache: Let the vendor cache the tools and the conversation, as it grows from request to
            request.
        resume: Id of a response in the background that answers this request already. The vendor is
            asked for that response; nothing is sent again. Not part of the digest.

    Raises:
        RequestError: There is nothing to answer, invocables and choice contradict each other, or
            a field is invalid. Controls and schemas are copied.
    """

    canisters: tuple[AnyCanister, ...] = attrs.field(converter=_ensure_canisters)
    model: str = ""
    controls: Mapping[str, JsonValue] = attrs.field(
        factory=dict, converter=ensure_controls, eq=write_plain
    )
    invocables: tuple[InvocableDescription, ...] = attrs.field(
        default=(), converter=_ensure_invocables
    )
    invocation_choice: str = "auto"
    schema: JsonObject | None = attrs.field(default=None, converter=ensure_schema, eq=write_plain)
    continuation: bool = False
    strict: bool = False
    lenient: bool = False
    window: WindowPolicy = "stop"
    native: Native | None = None
    conversation_id: str = ""
    resume: str = ""
    cache: CacheHint | None = None  # last, as it is encoded only if it is set

    __hash__ = None  # type: ignore[assignment]  # controls are a dictionary; digest() is the key

    def __attrs_post_init__(self) -> None:
        _ensure_answerable(self)
        ensure_valid_choice(self)

    def extend(self, new: Iterable[AnyCanister], *, continuation: bool = False) -> Request:
        """Return the same request with further canisters.

        Only the new ones are checked, so that a long conversation costs no more than a short one.

        Args:
            new: The new canisters.
            continuation: Let the model continue its own last turn.

        Raises:
            RequestError: There is nothing to answer, or an item is not a canister.
        """
        canisters = self.canisters + _ensure_canisters(new)
        extended = evolve_unchecked(self, canisters=canisters, continuation=continuation)
        _ensure_answerable(extended)
        return extended

    def digest(self) -> str:
        """Return a cache key: a hash of the request without ids and timestamps.

        Returns:
            A SHA-256, in lower-case hexadecimal digits.
        """
        from vibe_llms.messages.codec.digests import digest_request

        return digest_request(self)


class RequestFields(TypedDict, total=False):
    """Options of a request: its fields other than the conversation and the tools.

    See :class:`Request` for their meaning.
    """

    model: str
    controls: Mapping[str, JsonValue]
    invocation_choice: str
    schema: JsonObject | None
    strict: bool
    lenient: bool
    window: WindowPolicy
    native: Native | None
    cache: CacheHint | None


def replace_canisters(request: Request, canisters: Iterable[AnyCanister]) -> Request:
    """Return the same request with another conversation.

    The other fields were checked before and are not checked again.

    Raises:
        RequestError: There is nothing to answer.
    """
    changed = evolve_unchecked(request, canisters=_ensure_canisters(canisters))
    _ensure_answerable(changed)
    return changed


def is_answerable(last: AnyCanister) -> bool:
    """Return whether a model can answer a conversation that ends with this canister.

    It cannot answer the result of a call that the vendor executed itself: that is part of the
    model's own turn.
    """
    is_vendor_result = isinstance(last, ResultCanister) and last.owner is Owner.VENDOR
    return last.role in ANSWERABLE_ROLES and not is_vendor_result


def _ensure_answerable(request: Request) -> None:
    canisters = request.canisters
    if not canisters:
        raise RequestError(
            path="canisters",
            detail="The request has no canisters.",
            remedy="Begin with a UserCanister.",
        )
    last = canisters[-1]
    if request.continuation or is_answerable(last):
        return
    remedy = (
        "Append the ResultCanister of the invocation."
        if isinstance(last, InvocationCanister) and last.owner is Owner.OURS
        else "Append a UserCanister, or set continuation=True to let the model continue."
    )
    raise RequestError(
        path=f"canisters[{len(canisters) - 1}]",
        detail=f"The last canister ({last.role}) leaves nothing to answer.",
        remedy=remedy,
    )


def ensure_valid_choice(request: Request) -> None:
    """Refuse equal names of invocables, and a choice that is not among them."""
    names = {invocable.name for invocable in request.invocables}
    if len(names) < len(request.invocables) or not names.isdisjoint(CHOICES):
        _refuse_names(request.invocables)
    choice = request.invocation_choice
    if choice == "required" and not names:
        raise RequestError(
            path="invocation_choice",
            detail="An invocation is required, but there are no invocables.",
            remedy="Add invocables, or set the choice to 'auto'.",
        )
    if choice not in CHOICES and choice not in names:
        raise RequestError(
            path="invocation_choice",
            detail=f"The choice {choice!r} is not among the invocables.",
            remedy=f"Known: {', '.join((*CHOICES, *(item.name for item in request.invocables)))}.",
        )


def _refuse_names(invocables: Iterable[InvocableDescription]) -> None:
    """Raise RequestError for the first name that cannot be used."""
    names: set[str] = set()
    for index, invocable in enumerate(invocables):
        name, path = invocable.name, f"invocables[{index}].name"
        if name in CHOICES:
            detail = f"Invalid name of an invocable: {name!r} is a value of invocation_choice."
            raise RequestError(path=path, detail=detail, remedy="Rename it.")
        if name in names:
            detail = f"Two invocables are called {name!r}."
            raise RequestError(path=path, detail=detail, remedy="Give each its own name.")
        names.add(name)


def _ensure_origins(origins: Iterable[Origin]) -> tuple[Origin, ...]:
    return ensure_members(origins, (Origin,), "summaries")


@frozen(kw_only=True, slots=False, field_transformer=conform_fields)
class ResponseMetadata:
    """Metadata of a response.

    Attributes:
        origin: The origin, as on the canisters.
        duration_seconds: Time from sending the request to the end of the response.
        first_seconds: From sending the request to the first content; ``None`` if the response was
            not streamed.
        attempts: How often the request was sent; 1 without retries.
        request_id: The vendor's id of the request, for its support.
        summaries: Origins of summaries: if the conversation exceeded the context window, the model
            first summarized its oldest turns. Their usage counts, too.
        native: Other vendor data about the response, as a JSON object.
    """

    origin: Origin
    duration_seconds: float = 0.0
    first_seconds: float | None = None
    attempts: int = 1
    request_id: str | None = None
    summaries: tuple[Origin, ...] = attrs.field(default=(), converter=_ensure_origins)
    native: Native | None = None

    @property
    def usage(self) -> Usage | None:
        """Usage of the response, if the vendor reported it."""
        return self.origin.usage

    @property
    def stop_reason(self) -> StopReason:
        """The reason why the model stopped."""
        return self.origin.stop_reason


@frozen(kw_only=True, slots=False, field_transformer=conform_fields)
class Response:
    """Response to a request: canisters, metadata and losses.

    Attributes:
        request: The request.
        canisters: The canisters to append to the conversation, in order.
        metadata: Origin, stop reason, usage and duration.
        losses: The losses of the translation.
    """

    request: Request
    canisters: tuple[AnyCanister, ...] = attrs.field(converter=_ensure_canisters)
    metadata: ResponseMetadata
    losses: tuple[Loss, ...] = attrs.field(default=(), converter=ensure_losses)

    __hash__ = None  # type: ignore[assignment]  # a request is not hashable either

    def __repr__(self) -> str:
        origin = self.metadata.origin
        parts = [("text", self.text), ("stop_reason", str(origin.stop_reason))]
        parts.append(("model", f"{origin.provider}:{origin.model}"))
        return represent("Response", [*parts, *([("losses", self.losses)] if self.losses else ())])

    @property
    def conversation(self) -> tuple[AnyCanister, ...]:
        """The whole conversation: the request's canisters, then the response's."""
        return self.request.canisters + self.canisters

    @property
    def answer(self) -> tuple[AnyCanister, ...]:
        """The canisters. Every kind of answer has this attribute."""
        return self.canisters

    @property
    def origin(self) -> Origin:
        """The origin of the answer."""
        return self.metadata.origin

    @property
    def usage(self) -> Usage | None:
        """Usage of the answer, including summaries; ``None`` if unknown."""
        summaries = self.metadata.summaries
        if not summaries:
            return self.metadata.origin.usage
        return add_usages(origin.usage for origin in (self.metadata.origin, *summaries))

    @property
    def stop_reason(self) -> StopReason:
        """The stop reason; ``REFUSED`` also if only the text is a refusal."""
        for canister in self.canisters:
            if any(isinstance(content, RefusalContent) for content in canister.content):
                return StopReason.REFUSED
        return self.metadata.stop_reason

    @property
    def is_answered(self) -> bool:
        """True if the answer is complete: not cut off, refused or failed."""
        return self.shortfall is None

    @property
    def shortfall(self) -> Shortfall | None:
        """Reason for an incomplete answer, with the vendor's message; else ``None``."""
        return find_shortfall(self.canisters, self.metadata.origin, self.metadata.native)

    @property
    def text(self) -> str:
        """The text of the answer, without reasoning and results of the vendor's tools."""
        canisters = self.canisters
        if len(canisters) == 1 and canisters[0].role == "assistant":  # as usual
            return canisters[0].text
        return answer_text(canisters)

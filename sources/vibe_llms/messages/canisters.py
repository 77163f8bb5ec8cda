"""The six kinds of message, and the origin of those from a model.

Every class is a frozen value and stores the name of its kind in ``role``. Canisters are in
chronological order, and those of one turn share a turn id. If a model reasons, writes a text, calls
a tool and writes again, its turn has three canisters: an answer (with reasoning and text), an
invocation, and another answer.

Classes here and in ``contents`` have slots (:mod:`vibe_llms.foundation.slotted_classes`): a
conversation may have thousands of them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from datetime import datetime
from operator import attrgetter
from typing import Any, ClassVar, Final, Literal, Protocol, TypeAlias, runtime_checkable

import attrs

from vibe_llms.exceptions import ParseError
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.foundation.slotted_classes import slotted
from vibe_llms.messages.contents import AnyContent, Native, ensure_contents
from vibe_llms.messages.field_types import conform_fields, ensure_members
from vibe_llms.messages.identities import access_now, ensure_utc, produce_identity
from vibe_llms.messages.texts import join_answer, join_texts


class StopReason(enum.StrEnum):
    """Reason why a model stopped, common to all vendors.

    ``ANSWERED``: the answer is complete. ``LIMIT``: the token limit was reached.
    ``STOP_SEQUENCE``: a stop sequence occurred. ``INVOCATION``: the model waits for results.
    ``PAUSED``: the vendor expects another request. ``REFUSED``: the model refused.
    ``FILTERED``: the vendor withheld the answer. ``OVERFLOW``: the context window was full.
    ``INTERRUPTED``: the caller stopped it. ``FAILED``: the answer broke off. ``UNKNOWN``: the
    vendor gave no reason, or an unknown one.
    """

    ANSWERED = "answered"
    LIMIT = "limit"
    STOP_SEQUENCE = "stop-sequence"
    INVOCATION = "invocation"
    PAUSED = "paused"
    REFUSED = "refused"
    FILTERED = "filtered"
    OVERFLOW = "overflow"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    UNKNOWN = "unknown"


BROKEN_OFF: Final = frozenset({StopReason.INTERRUPTED, StopReason.FAILED})
"""Stop reasons of a response that did not complete."""


@slotted(kw_only=True, field_transformer=conform_fields)
class Usage:
    """Token usage of a response, in disjoint buckets.

    ``None`` means that the vendor did not report it, which is not zero.

    Attributes:
        input_tokens: Input tokens outside all other buckets.
        cache_read_tokens: Input read from a prompt cache.
        cache_write_tokens: Input written to a prompt cache with its default lifetime.
        cache_write_long_tokens: Input written to a prompt cache with a longer lifetime.
        input_audio_tokens: Audio input outside the cache.
        output_tokens: Output tokens outside all other buckets.
        reasoning_tokens: Reasoning output.
        output_audio_tokens: Audio output.
        native: The vendor's own usage data, as JSON.
    """

    input_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_long_tokens: int | None = None
    input_audio_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    output_audio_tokens: int | None = None
    native: str | None = None

    @property
    def total_input_tokens(self) -> int | None:
        """All input, cached or not; ``None`` if unknown."""
        return _sum_known(_access_input(self))

    @property
    def total_output_tokens(self) -> int | None:
        """All output, including reasoning; ``None`` if unknown."""
        return _sum_known(_access_output(self))

    def __add__(self, other: Usage) -> Usage:
        """Add two usages, bucket by bucket; vendors' native data are left out."""
        sums: dict[str, Any] = {
            name: _sum_known((getattr(self, name), getattr(other, name)))
            for name in (*INPUT_BUCKETS, *OUTPUT_BUCKETS)
        }
        return Usage(**sums)  # native data cannot be added


INPUT_BUCKETS = (
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cache_write_long_tokens",
    "input_audio_tokens",
)
OUTPUT_BUCKETS = ("output_tokens", "reasoning_tokens", "output_audio_tokens")
"""Names of the buckets; they do not overlap."""

_access_input, _access_output = attrgetter(*INPUT_BUCKETS), attrgetter(*OUTPUT_BUCKETS)


def _sum_known(counts: tuple[int | None, ...]) -> int | None:
    # Without a loop, as gateways do this for each request.
    return sum(filter(None, counts)) or (0 if 0 in counts else None)


@slotted(kw_only=True, field_transformer=conform_fields)
class Origin:
    """Origin of a model's canister; all canisters of a turn have the same.

    Attributes:
        provider: The provider's name in the configuration.
        model: The model that answered, as the vendor names it.
        protocol: The protocol, such as ``chat_completions``.
        response_id: The vendor's id of the response.
        stop_reason: Why the model stopped.
        native_stop_reason: The vendor's own reason, or ``None``.
        usage: Usage of the whole turn.
        seconds: Duration of the whole turn, from sending the request to its end; ``None`` if
            unknown. Ignored when origins are compared.
    """

    provider: str
    model: str
    protocol: str | None = None
    response_id: str | None = None
    stop_reason: StopReason = StopReason.UNKNOWN
    native_stop_reason: str | None = None
    usage: Usage | None = None
    seconds: float | None = attrs.field(default=None, eq=False)


def _ensure_origins(origins: Iterable[Origin]) -> tuple[Origin, ...]:
    return ensure_members(origins, (Origin,), "origins")


def _ensure_files(files: Iterable[str]) -> tuple[str, ...]:
    return ensure_members(files, (str,), "files")


@slotted(kw_only=True, field_transformer=conform_fields)
class SummarizedPart:
    """Part of a conversation that a summary replaces.

    The messages themselves stay in that conversation.

    Attributes:
        conversation: Id of the conversation that has the messages.
        first: Id of the first message of the part.
        last: Id of the last one.
        files: Names of files in the part, newest first.
        origins: Origins of the model calls that wrote the summary, with their usage.
    """

    conversation: str
    first: str
    last: str
    files: tuple[str, ...] = attrs.field(default=(), converter=_ensure_files)
    origins: tuple[Origin, ...] = attrs.field(default=(), converter=_ensure_origins)


class Owner(enum.StrEnum):
    """Executor of an invocation: ``OURS`` is this program, ``VENDOR`` the vendor."""

    OURS = "ours"
    VENDOR = "vendor"


@runtime_checkable
class Canister(Protocol):
    """Interface of all canisters, for code that reads them."""

    @property
    def role(self) -> str:
        """The kind of canister, as stored: ``user``, ``assistant`` and so on."""

    @property
    def id(self) -> str:
        """The unique id of the canister."""

    @property
    def timestamp(self) -> datetime:
        """The time of the message, in UTC."""

    @property
    def content(self) -> tuple[AnyContent, ...]:
        """The contents, in order: text, media and so on."""

    @property
    def text(self) -> str:
        """The text, without reasoning."""


_FIELD_ORDER = {"role": -1, "origin": 1, "turn_id": 2, "native": 3}
"""Sort keys of the type name and of inherited fields; a class's own fields have the key 0."""


def _conform_canister_fields(
    cls: type, fields: list[attrs.Attribute[object]]
) -> list[attrs.Attribute[object]]:
    """Put the fields into the order in which they are written."""
    return sorted(conform_fields(cls, fields), key=lambda field: _FIELD_ORDER.get(field.name, 0))


@slotted(field_transformer=conform_fields)
class _CanisterBase:
    """Base class of all canisters.

    Attributes:
        content: A text, a content or several; stored as a tuple of contents.
        id: A unique id; a new one by default.
        timestamp: The time of the message, in UTC; now by default.
        native: Vendor data without a common field.
    """

    timestamp: datetime = attrs.field(factory=access_now, converter=ensure_utc, kw_only=True)
    content: tuple[AnyContent, ...] = attrs.field(default=(), converter=ensure_contents)
    id: str = attrs.field(factory=produce_identity, kw_only=True)
    native: Native | None = attrs.field(default=None, kw_only=True)

    @property
    def text(self) -> str:
        """The text, without reasoning: see :func:`vibe_llms.messages.views.text_of`."""
        return join_texts(self.content)


class _InputCanister(_CanisterBase):
    """Base class of canisters that never come from a model.

    Not an attrs class: it has no fields of its own, and each attrs class slows the import.
    """

    __slots__ = ()

    origin: ClassVar[None] = None
    turn_id: ClassVar[None] = None


@slotted(field_transformer=conform_fields)
class _ModelCanisterBase(_CanisterBase):
    """Base class of canisters that can come from a model.

    Attributes:
        origin: The model that answered and its usage; ``None`` if no model did.
        turn_id: The id that all canisters of one answer share.
    """

    origin: Origin | None = attrs.field(default=None, kw_only=True)
    turn_id: str | None = attrs.field(default=None, kw_only=True)


@slotted(field_transformer=_conform_canister_fields)
class UserCanister(_InputCanister):
    """A message of the user.

    Attributes:
        content: A text, a content or several; stored as a tuple of contents.
        id: A unique id; a new one by default.
        timestamp: The time of the message, in UTC; now by default.
        native: Vendor data without a common field.
    """

    role: Literal["user"] = attrs.field(default="user", init=False)


@slotted(field_transformer=_conform_canister_fields)
class SupervisorCanister(_InputCanister):
    """Instructions to the model (a system prompt).

    It has the attributes of every canister: see :class:`UserCanister`.
    """

    role: Literal["supervisor"] = attrs.field(default="supervisor", init=False)


@slotted(field_transformer=_conform_canister_fields)
class DocumentCanister(_InputCanister):
    """A document for reference, not part of the dialogue; see :class:`UserCanister`.

    Attributes:
        title: Title of the document, such as a file name.
        summarizes: The part of a conversation that this summary replaces; ``None`` if it is not a
            summary.
    """

    role: Literal["document"] = attrs.field(default="document", init=False)
    title: str | None = attrs.field(default=None, kw_only=True)
    summarizes: SummarizedPart | None = attrs.field(default=None, kw_only=True)


@slotted(field_transformer=_conform_canister_fields)
class AssistantCanister(_ModelCanisterBase):
    """An answer of the model, with its reasoning; see :class:`UserCanister`.

    Attributes:
        origin: The model that answered and its usage; ``None`` if no model did.
        turn_id: The id that all canisters of one answer share.
    """

    role: Literal["assistant"] = attrs.field(default="assistant", init=False)

    @property
    def text(self) -> str:
        """The text, without reasoning: see :func:`vibe_llms.messages.views.text_of`."""
        return join_answer(self.content)


@slotted(field_transformer=_conform_canister_fields)
class InvocationCanister(_ModelCanisterBase):
    """A tool call of the model, or one that the vendor has executed itself.

    See :class:`AssistantCanister` for the other attributes.

    Attributes:
        invocation_id: The vendor's id of the call, unchanged.
        name: The name of the tool.
        arguments: The unparsed text of the model, possibly invalid JSON;
            :meth:`parse_arguments` parses it.
        form: The intended format: ``json``, or the free ``text`` of a custom tool.
        owner: The executor.
        content: Contents that the vendor adds; usually empty.
        native: The complete block of a vendor's own call, otherwise data without a common field.
    """

    role: Literal["invocation"] = attrs.field(default="invocation", init=False)
    invocation_id: str = attrs.field(kw_only=True)
    name: str = attrs.field(kw_only=True)
    arguments: str = attrs.field(default="{}", kw_only=True)
    form: Literal["json", "text"] = attrs.field(default="json", kw_only=True)
    owner: Owner = attrs.field(default=Owner.OURS, kw_only=True)

    @property
    def fault(self) -> str | None:
        """The error of the arguments, in one line; ``None`` if they are a JSON object.

        Models can write invalid arguments. They are stored unchanged; check here before executing
        the invocation. Free text has no fault, and an empty text means no arguments.
        """
        if self.form == "text":
            return None
        try:
            self.parse_arguments()
        except ParseError as error:
            return error.detail
        return None

    def parse_arguments(self) -> dict[str, JsonValue]:
        """Parse the arguments as a JSON object; return a new one each time.

        An empty text and ``null`` are an empty object: many models send them for a tool without
        parameters.

        Raises:
            ParseError: They are invalid JSON, not an object, or free text; it says what and where.
        """
        text = self.arguments
        if self.form == "text":
            raise _produce_error(self, f"The arguments of {self.name} are free text, not JSON.")
        import msgspec  # imported here, as few programs parse arguments

        from vibe_llms.foundation.json_errors import UNREADABLE

        try:
            value = msgspec.json.decode(text) if text.strip() else None
        except UNREADABLE as error:
            raise _produce_error(
                self, f"The arguments of {self.name} are not JSON: {error}"
            ) from None
        if isinstance(value, dict):
            return value
        if value is None or value == "":
            return {}
        kind = type(value).__name__
        raise _produce_error(self, f"The arguments of {self.name} are {kind}, not an object.")


def _produce_error(canister: InvocationCanister, detail: str) -> ParseError:
    return ParseError(detail=detail, kind="JSON object", text=canister.arguments, faults=(detail,))


@slotted(field_transformer=_conform_canister_fields)
class ResultCanister(_ModelCanisterBase):
    """The result of a tool call; see :class:`AssistantCanister`.

    Attributes:
        invocation_id: The id of the call.
        name: The name of the tool, if known.
        content: The result for the model: a text, a content or several.
        is_error: Whether the result is an error.
        owner: The executor.
        origin: The origin, if a vendor executed the call; else ``None``.
    """

    role: Literal["result"] = attrs.field(default="result", init=False)
    invocation_id: str = attrs.field(kw_only=True)
    name: str | None = attrs.field(default=None, kw_only=True)
    is_error: bool = attrs.field(default=False, kw_only=True)
    owner: Owner = attrs.field(default=Owner.OURS, kw_only=True)


AnyCanister: TypeAlias = (
    UserCanister
    | SupervisorCanister
    | DocumentCanister
    | AssistantCanister
    | InvocationCanister
    | ResultCanister
)
ModelCanister: TypeAlias = AssistantCanister | InvocationCanister | ResultCanister
"""Canisters that can come from a model, and then have an origin and a turn."""

CANISTER_CLASSES: dict[str, type[AnyCanister]] = {
    "user": UserCanister,
    "supervisor": SupervisorCanister,
    "document": DocumentCanister,
    "assistant": AssistantCanister,
    "invocation": InvocationCanister,
    "result": ResultCanister,
}
"""Class of each role."""

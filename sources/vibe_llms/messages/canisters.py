"""The six kinds of message, and where those from a model came from.

Every class is a frozen value and carries its stable word in ``role``. The order of the
canisters is the order in which things were said: a model that thinks, speaks, calls and
speaks again yields four contents in three canisters, which one turn id groups.

Here and in ``contents`` the classes have no slots: msgspec writes an object with a dictionary
in the order of its fields, and frozen ones are faster to make; a misspelt attribute is an
error either way.
"""

from __future__ import annotations

import enum
from datetime import datetime
from operator import attrgetter
from typing import Any, Final, Literal, Protocol, TypeAlias, cast, runtime_checkable

import attrs

from vibe_llms.exceptions import ParseError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.messages.contents import AnyContent, Native, ensure_contents
from vibe_llms.messages.field_types import conform_fields
from vibe_llms.messages.identities import access_now, ensure_utc, produce_identity


class StopReason(enum.StrEnum):
    """Why a model stopped, whatever words the vendor has for it.

    ``ANSWERED``: it had said all. ``LIMIT``: it may not say more at once. ``STOP_SEQUENCE``: it
    came to a text at which it shall stop. ``INVOCATION``: it waits for results. ``PAUSED``: the
    vendor wants to be asked again. ``REFUSED``: it will not answer. ``FILTERED``: the vendor held
    the answer back. ``OVERFLOW``: the window was full. ``INTERRUPTED``: we stopped it.
    ``FAILED``: it broke off. ``UNKNOWN``: the vendor said nothing, or a word not known here.
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
"""The reasons of a response that did not come to its end."""


@frozen(kw_only=True, slots=False, field_transformer=conform_fields)
class Usage:
    """Tokens that a response used, in buckets that do not overlap.

    ``None`` means that the vendor did not say, which is not zero.

    Attributes:
        input_tokens: Input that is in no other bucket.
        cache_read_tokens: Input read from a prompt cache.
        cache_write_tokens: Input written to a prompt cache for its ordinary time.
        cache_write_long_tokens: Input written to a prompt cache for longer than that.
        input_audio_tokens: Input that was sound, and in no cache.
        output_tokens: Output that is in no other bucket.
        reasoning_tokens: Output that was reasoning.
        output_audio_tokens: Output that was sound.
        native: The vendor's own account, as JSON, verbatim.
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
        """All input, cached or not; ``None`` where nothing is known."""
        return _sum_known(*_access_input(self))

    @property
    def total_output_tokens(self) -> int | None:
        """All output, reasoning or not; ``None`` where nothing is known."""
        return _sum_known(*_access_output(self))

    def __add__(self, other: Usage) -> Usage:
        """Adds two accounts, bucket by bucket; the vendors' own words do not add up."""
        sums: dict[str, Any] = {
            name: _sum_known(getattr(self, name), getattr(other, name))
            for name in (*INPUT_BUCKETS, *OUTPUT_BUCKETS)
        }
        return Usage(**sums)  # the vendors' own words do not add up


INPUT_BUCKETS = (
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cache_write_long_tokens",
    "input_audio_tokens",
)
OUTPUT_BUCKETS = ("output_tokens", "reasoning_tokens", "output_audio_tokens")
"""The names of the buckets; none of them overlaps another."""

_access_input, _access_output = attrgetter(*INPUT_BUCKETS), attrgetter(*OUTPUT_BUCKETS)


def _sum_known(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


@frozen(kw_only=True, slots=False, field_transformer=conform_fields)
class Origin:
    """Where a canister from a model came from: the same value on each canister of its turn.

    Attributes:
        provider: The provider's name in the configuration.
        model: The model that answered, in the vendor's words.
        protocol: The dialect that was spoken, such as ``chat_completions``.
        response_id: The vendor's name for the response.
        stop_reason: Why the model stopped.
        native_stop_reason: The same in the vendor's words; ``None`` where it said nothing.
        usage: What the whole turn used.
        seconds: How long the whole turn took, from sending the request to its end; ``None`` where
            that is not known. Two origins that differ in nothing else are equal.
    """

    provider: str
    model: str
    protocol: str | None = None
    response_id: str | None = None
    stop_reason: StopReason = StopReason.UNKNOWN
    native_stop_reason: str | None = None
    usage: Usage | None = None
    seconds: float | None = attrs.field(default=None, eq=False)


class Owner(enum.StrEnum):
    """Who executes an invocation: ``OURS``, this program; ``VENDOR``, the vendor, who has."""

    OURS = "ours"
    VENDOR = "vendor"


@runtime_checkable
class Canister(Protocol):
    """What code that only reads may rely on."""

    @property
    def role(self) -> str:
        """The stable word of the kind, as it is stored."""

    @property
    def id(self) -> str:
        """The canister's id, unlike that of any other."""

    @property
    def timestamp(self) -> datetime:
        """When it was said, in UTC."""

    @property
    def content(self) -> tuple[AnyContent, ...]:
        """The texts, media and other contents that it holds, in order."""

    @property
    def text(self) -> str:
        """Its words, without reasoning."""


_PLACES = {"role": -1, "origin": 1, "turn_id": 2, "native": 3}
"""Where fields stand that a class inherits, or its word: before its own (0), or behind them."""


def _conform_canister_fields(
    cls: type, fields: list[attrs.Attribute[object]]
) -> list[attrs.Attribute[object]]:
    """Puts the fields into the order in which they are written down."""
    return sorted(conform_fields(cls, fields), key=lambda field: _PLACES.get(field.name, 0))


@frozen(slots=False, field_transformer=conform_fields)
class _Said:
    """What every canister has.

    Attributes:
        content: What is said: a text, a content, or several; kept as a tuple of contents.
        id: A name of its own; a new one by default.
        timestamp: When it was said, in UTC; now by default.
        native: What the vendor said of it beyond the common words.
    """

    timestamp: datetime = attrs.field(factory=access_now, converter=ensure_utc, kw_only=True)
    content: tuple[AnyContent, ...] = attrs.field(default=(), converter=ensure_contents)
    id: str = attrs.field(factory=produce_identity, kw_only=True)
    native: Native | None = attrs.field(default=None, kw_only=True)

    @property
    def text(self) -> str:
        """Its words, without reasoning: see :func:`vibe_llms.messages.views.text_of`."""
        from vibe_llms.messages.views import text_of

        return text_of(cast("AnyCanister", self))


@frozen(slots=False, field_transformer=conform_fields)
class _Answered(_Said):
    """What a canister has that can come from a model.

    Attributes:
        origin: Who answered, and what the turn used; ``None`` where no model did.
        turn_id: Groups the canisters of one answer.
    """

    origin: Origin | None = attrs.field(default=None, kw_only=True)
    turn_id: str | None = attrs.field(default=None, kw_only=True)


@frozen(slots=False, field_transformer=_conform_canister_fields)
class UserCanister(_Said):
    """What the user says.

    Attributes:
        content: What is said: a text, a content, or several; kept as a tuple of contents.
        id: A name of its own; a new one by default.
        timestamp: When it was said, in UTC; now by default.
        native: What the vendor said of it beyond the common words.
    """

    role: Literal["user"] = attrs.field(default="user", init=False)


@frozen(slots=False, field_transformer=_conform_canister_fields)
class SupervisorCanister(_Said):
    """Instructions from whoever is responsible for the conversation (a system prompt).

    The attributes are those that every canister has: see :class:`UserCanister`.
    """

    role: Literal["supervisor"] = attrs.field(default="supervisor", init=False)


@frozen(slots=False, field_transformer=_conform_canister_fields)
class DocumentCanister(_Said):
    """Material to be consulted, as opposed to words that are meant; see :class:`UserCanister`.

    Attributes:
        title: What it is called, such as the name of its file.
    """

    role: Literal["document"] = attrs.field(default="document", init=False)
    title: str | None = attrs.field(default=None, kw_only=True)


@frozen(slots=False, field_transformer=_conform_canister_fields)
class AssistantCanister(_Answered):
    """What the model thinks and says; see :class:`UserCanister`.

    Attributes:
        origin: Who answered, and what the turn used; ``None`` where no model did.
        turn_id: Groups the canisters of one answer.
    """

    role: Literal["assistant"] = attrs.field(default="assistant", init=False)


@frozen(slots=False, field_transformer=_conform_canister_fields)
class InvocationCanister(_Answered):
    """One call that the model asks for, or that the vendor has made on its own.

    See :class:`AssistantCanister` for what else comes from a model.

    Attributes:
        invocation_id: The vendor's id of the call, kept as it is.
        name: Of the invocable.
        arguments: The text that the model wrote, unparsed: it may not even be JSON.
            :meth:`parse_arguments` reads it.
        form: What the text was meant to be: ``json``, or the free ``text`` of a custom tool.
        owner: Who executes it.
        content: What the vendor says beside it; mostly nothing.
        native: Of a vendor's own invocation the whole block, else what has no common word.
    """

    role: Literal["invocation"] = attrs.field(default="invocation", init=False)
    invocation_id: str = attrs.field(kw_only=True)
    name: str = attrs.field(kw_only=True)
    arguments: str = attrs.field(default="{}", kw_only=True)
    form: Literal["json", "text"] = attrs.field(default="json", kw_only=True)
    owner: Owner = attrs.field(default=Owner.OURS, kw_only=True)

    @property
    def fault(self) -> str | None:
        """What is wrong with the arguments, in one line; ``None`` where they are a JSON object.

        A model may write anything: what it wrote is kept, and whoever executes the invocation
        asks here first. Free text has no fault, and nothing at all means no arguments.
        """
        if self.form == "text":
            return None
        try:
            self.parse_arguments()
        except ParseError as error:
            return error.detail
        return None

    def parse_arguments(self) -> dict[str, JsonValue]:
        """Reads the arguments as what they are meant to be: an object, new each time.

        Nothing, in whatever form a vendor says it (an empty text, ``null``), is an object
        without fields: that is how many models call what takes no arguments.

        Raises:
            ParseError: They are no JSON, or no object, or free text; it says what and where.
        """
        text = self.arguments
        if self.form == "text":
            raise _refuse(self, f"The arguments of {self.name} are free text, not JSON.")
        import msgspec  # most canisters are never asked

        from vibe_llms.foundation.json_errors import UNREADABLE

        try:
            value = msgspec.json.decode(text) if text.strip() else None
        except UNREADABLE as error:
            raise _refuse(self, f"The arguments of {self.name} are not JSON: {error}") from None
        if isinstance(value, dict):
            return value
        if value is None or value == "":
            return {}
        kind = type(value).__name__
        raise _refuse(self, f"The arguments of {self.name} are {kind}, not an object.")


def _refuse(canister: InvocationCanister, detail: str) -> ParseError:
    return ParseError(detail=detail, kind="JSON object", text=canister.arguments, faults=(detail,))


@frozen(slots=False, field_transformer=_conform_canister_fields)
class ResultCanister(_Answered):
    """What came of one invocation; see :class:`AssistantCanister`.

    Attributes:
        invocation_id: Of the invocation that it answers.
        name: Of the invocable, where it is known.
        content: What the model is told: a text, a content, or several.
        is_error: Whether the contents tell of a failure.
        owner: Who executed the invocation.
        origin: Of what a vendor executed, who answered; else ``None``.
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
"""The kinds which can come from a model and then have an origin and a turn."""

CANISTER_CLASSES: dict[str, type[AnyCanister]] = {
    "user": UserCanister,
    "supervisor": SupervisorCanister,
    "document": DocumentCanister,
    "assistant": AssistantCanister,
    "invocation": InvocationCanister,
    "result": ResultCanister,
}
"""From the stable word of each role to its class."""

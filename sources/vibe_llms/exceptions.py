"""Exceptions of the package.

::

    ConverseError (Exception)
    ├── ConfigurationError (ValueError)          invalid configuration
    ├── TrustError (PermissionError)             code or a download is not permitted
    ├── DependencyError (ImportError)            an optional package is missing
    ├── PluginError (ImportError)                a plugin could not be loaded
    ├── UnknownNameError (LookupError)           unknown provider, model, control …
    ├── WeightsError (OSError)                   a local model's weights are unusable
    ├── RequestError (ValueError)                invalid request
    │   ├── ControlError                         invalid value of a control
    │   ├── CapabilityError                      the model lacks a capability
    │   └── ContextOverflowError                 more input than the model's window
    ├── TranslationLossError (ValueError)        with `strict`, a translation would lose
    ├── CodecError (ValueError)                  data in an invalid format
    ├── ParseError (ValueError)                  an answer could not be parsed
    ├── LimitError (RuntimeError)                a named limit was reached
    ├── TransportError (ConnectionError)         the peer cannot be reached
    │   └── TransportTimeoutError (TimeoutError)  the peer took longer than allowed
    ├── StreamTruncatedError (EOFError)          a stream ended without its terminator
    ├── ProviderError (RuntimeError)             the vendor answered with an error
    ├── AccessError (PermissionError)            a daemon denies a client's request
    ├── GuardError (PermissionError)             a guard refused a request, an answer or a call
    ├── StoreError (OSError)                     a conversation cannot be read or written
    │   ├── UnknownConversationError (LookupError)
    │   ├── AmbiguousIdentityError (LookupError)
    │   ├── StaleConversationError               another writer changed it
    │   ├── StoreUnavailableError                its database is unreachable for now
    │   └── CorruptionError (ValueError)
    ├── EnsembleError (ConnectionError)          an ensemble of invocables cannot be used
    └── ForeignError (RuntimeError)              another package's, another process'

The class names the kind of failure; its fields are the facts, for programs; ``str`` composes them
into a message for people: what happened, to which object, what to do next. ``stage`` says when.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, cast

from vibe_llms.foundation.error_facts import Factual
from vibe_llms.foundation.error_facts import Stage as Stage
from vibe_llms.foundation.error_facts import access_facts as access_facts
from vibe_llms.foundation.findings import Finding as Finding
from vibe_llms.foundation.provider_faults import RETRYABLE_FAULTS as RETRYABLE_FAULTS
from vibe_llms.foundation.provider_faults import ProviderFault as ProviderFault
from vibe_llms.foundation.suggestions import suggest

_LONGEST_NAME = 200  # characters of an unknown name that an error repeats


def end_sentence(text: str) -> str:
    """End the text with a full stop, so that another sentence can follow."""
    text = text.rstrip()
    return text if text.endswith((".", "?", "!", ":")) else f"{text}."


class ConverseError(Factual, Exception):
    """Base class of all errors of this package.

    Attributes:
        detail: Description of the error, as one sentence without its remedy.
        remedy: The fix for the user; may be empty.
        stage: The stage in which it happened.
    """

    WORD: ClassVar[str] = "error"
    """The stable word that names the class in its JSON form."""
    sent: ClassVar[int] = 1
    """Number of times that the request was sent; not among the facts."""
    response_id: ClassVar[str] = ""
    """Id of the response in the background that the vendor may still complete, for
    ``Request.resume``; not among the facts.
    """
    missed: ClassVar[int] = 0
    """Number of attempts before the last one that did not reach the vendor; not among the facts."""

    detail: str = ""
    remedy: str = ""
    stage: Stage = Stage.PROVIDER

    @property
    def arrived(self) -> tuple[Any, ...]:
        """The canisters received before an answer broke off; not among the facts, never encoded."""
        return cast(tuple[Any, ...], self.__dict__.get("_arrived", ()))

    def keep_arrived(self, canisters: Iterable[Any], *, sent: int = 1, missed: int = 0) -> None:
        """Attach the canisters received before the error, and the numbers of attempts.

        Args:
            sent: Number of times that the request was sent.
            missed: Number of attempts before the last one that did not reach the vendor.
        """
        self.__dict__.update(_arrived=tuple(canisters), sent=sent, missed=missed)

    def keep_response(self, response_id: str) -> None:
        """Attach the id of a response in the background that the vendor may still complete."""
        self.__dict__.update(response_id=response_id)

    @property
    def is_retryable(self) -> bool:
        """True if the same request may succeed later."""
        return False

    def describe(self) -> str:
        """Compose the message from the facts; subclasses refine it."""
        return self.detail or type(self).__name__

    def __str__(self) -> str:
        text = self.describe()
        return f"{end_sentence(text)} {self.remedy}" if self.remedy else text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class ConfigurationError(ConverseError, ValueError):
    """Invalid configuration; lists all findings."""

    WORD: ClassVar[str] = "configuration"
    findings: tuple[Finding, ...] = ()
    stage: Stage = Stage.CONFIGURE

    @classmethod
    def at(cls, place: str, message: str, line: int = 0, column: int = 0) -> ConfigurationError:
        """Return the error for one mistake; see :class:`Finding`."""
        return cls(findings=(Finding(place=place, line=line, column=column, message=message),))

    def describe(self) -> str:
        return "\n".join(map(str, self.findings)) or super().describe()


class TrustError(ConverseError, PermissionError):
    """The user has not permitted to run, install or download ``subject``."""

    WORD: ClassVar[str] = "trust"
    subject: str = ""
    stage: Stage = Stage.CONFIGURE


class DependencyError(ConverseError, ImportError):
    """An optional ``package`` is missing; ``remedy`` holds the command that installs it."""

    WORD: ClassVar[str] = "dependency"
    package: str = ""
    stage: Stage = Stage.CONFIGURE


class PluginError(ConverseError, ImportError):
    """A ``plugin`` could not be loaded or broke its contract; other plugins keep working."""

    WORD: ClassVar[str] = "plugin"
    plugin: str = ""
    stage: Stage = Stage.CONFIGURE


class UnknownNameError(ConverseError, LookupError):
    """Unknown name.

    Attributes:
        kind: The kind of the name, such as ``provider`` or ``model``.
        name: The name as given.
        known: Valid names, nearest first.
    """

    WORD: ClassVar[str] = "unknown-name"
    kind: str = "name"
    name: str = ""
    known: tuple[str, ...] = ()
    stage: Stage = Stage.CONFIGURE

    def describe(self) -> str:
        if self.detail:
            return self.detail
        suggestion = suggest(self.name, self.known)  # only a full stop if no name is similar
        lists_names = self.known and suggestion == "."
        known = f" Known: {', '.join(sorted(self.known))}." if lists_names else ""
        name = self.name if len(self.name) <= _LONGEST_NAME else f"{self.name[:_LONGEST_NAME]}…"
        return f"Unknown {self.kind} {name!r}{suggestion}{known}"


class WeightsError(ConverseError, OSError):
    """The weights of a local model, in ``path``, are missing, damaged or not the pinned ones."""

    WORD: ClassVar[str] = "weights"
    path: str = ""
    stage: Stage = Stage.CONFIGURE


class RequestError(ConverseError, ValueError):
    """Invalid request, found before it was sent.

    Attributes:
        path: The place in the request, such as ``canisters[3].content[0]``.
    """

    WORD: ClassVar[str] = "request"
    path: str = ""
    stage: Stage = Stage.TRANSLATE


class ControlError(RequestError):
    """The value of a ``control`` is outside its domain, or the control is unknown."""

    WORD: ClassVar[str] = "control"
    control: str = ""


class CapabilityError(RequestError):
    """The ``model`` is known to lack a ``capability`` that the request needs."""

    WORD: ClassVar[str] = "capability"
    model: str = ""
    capability: str = ""


class ContextOverflowError(RequestError):
    """The input, or input and requested output, exceed the model's window. Sizes in tokens."""

    WORD: ClassVar[str] = "context-overflow"
    remedy: str = (
        'Start a new conversation, set window = "drop" or "summarize", '
        "or use a model with a larger window."
    )
    model: str = ""
    tokens: int | None = None
    limit: int | None = None


class TranslationLossError(ConverseError, ValueError):
    """A translation would lose something, and the option ``strict`` forbids losses.

    Attributes:
        losses: One line each, as :class:`vibe_llms.messages.losses.Loss` prints itself.
    """

    WORD: ClassVar[str] = "translation-loss"
    losses: tuple[str, ...] = ()
    stage: Stage = Stage.TRANSLATE

    def describe(self) -> str:
        return self.detail or f"The translation would lose: {'; '.join(self.losses)}."


class CodecError(ConverseError, ValueError):
    """Data that is not valid in this package's format.

    Attributes:
        path: The place, such as ``$.content[1].type``.
        known: The valid words in this place, where the value must be one of a list.
    """

    WORD: ClassVar[str] = "codec"
    path: str = "$"
    known: tuple[str, ...] = ()
    stage: Stage = Stage.DECODE

    def describe(self) -> str:
        text = f"{self.detail} @ {self.path}"
        return f"{text} (known: {', '.join(self.known)})" if self.known else text


class ParseError(ConverseError, ValueError):
    """An answer could not be parsed. ``arrived`` holds the answers of all attempts.

    Attributes:
        kind: The expected kind, such as ``City``.
        text: The last answer, as the model wrote it.
        faults: The faults of that answer, one line each.
        attempts: How many answers were requested.
    """

    WORD: ClassVar[str] = "parse"
    kind: str = ""
    text: str = ""
    faults: tuple[str, ...] = ()
    attempts: int = 1
    stage: Stage = Stage.DECODE

    def describe(self) -> str:
        if self.detail:
            return self.detail
        times = "" if self.attempts == 1 else f" after {self.attempts} attempts"
        return f"The answer is not a valid {self.kind}{times}: {'; '.join(self.faults)}."


class LimitError(ConverseError, RuntimeError):
    """The limit ``limit`` of the configuration was reached: ``value``, in the unit of its name."""

    WORD: ClassVar[str] = "limit"
    limit: str = ""
    value: float = 0

    def describe(self) -> str:
        return self.detail or f"The limit {self.limit} = {self.value:.15g} was reached."


class TransportError(ConverseError, ConnectionError):
    """The peer could not be reached, or disconnected before it answered.

    Attributes:
        should_retry: False if each retry would fail in the same way, as with an untrusted
            certificate; else ``None``.
    """

    WORD: ClassVar[str] = "transport"
    address: str = ""
    should_retry: bool | None = None
    stage: Stage = Stage.CONNECT

    @property
    def is_retryable(self) -> bool:
        """True if the same request may succeed later: nothing of an answer was received."""
        if self.arrived or self.should_retry is False:
            return False
        return getattr(self, "phase", "") != "total"  # the total time is used up


class TransportTimeoutError(TransportError, TimeoutError):
    """The peer took longer than a setting allows.

    Attributes:
        phase: Which timeout: ``connect``, ``first-byte``, ``between-chunks`` or ``total``.
        seconds: The duration of this timeout.
    """

    WORD: ClassVar[str] = "transport-timeout"
    phase: str = ""
    seconds: float = 0

    def describe(self) -> str:
        return self.detail or (
            f"{self.address or 'The peer'} took too long: the {self.phase} timeout of "
            f"{self.seconds:g} seconds has passed."
        )


class StreamTruncatedError(ConverseError, EOFError):
    """A stream ended without its terminator; ``arrived`` holds the received part."""

    WORD: ClassVar[str] = "stream-truncated"
    stage: Stage = Stage.FRAME

    @property
    def is_retryable(self) -> bool:
        """True if the same request may succeed later: nothing of an answer was received."""
        return not self.arrived


class ProviderError(ConverseError, RuntimeError):
    """The vendor answered with an error.

    Attributes:
        provider: The provider's name.
        fault: The meaning of the error.
        status: The HTTP status; ``None`` if there is none.
        vendor_type, vendor_code: The kind of error, and its code, in the vendor's own words.
        vendor_param: The field of the request that the vendor rejects, in the vendor's own words.
        request_id: The vendor's id of the exchange, for its support.
        retry_after_seconds: The delay before a retry that the vendor requests.
        should_retry: The vendor's statement about a retry; ``None`` without one.
    """

    WORD: ClassVar[str] = "provider"
    provider: str = ""
    fault: ProviderFault = ProviderFault.UNKNOWN
    status: int | None = None
    vendor_type: str | None = None
    vendor_code: str | None = None
    vendor_param: str | None = None
    request_id: str | None = None
    retry_after_seconds: float | None = None
    should_retry: bool | None = None

    def describe(self) -> str:
        return f"{self.provider or 'The provider'} failed ({self.fault}): {self.detail}"

    @property
    def is_retryable(self) -> bool:
        """True if the same request may succeed later; the vendor's own statement decides."""
        return self.fault in RETRYABLE_FAULTS if self.should_retry is None else self.should_retry


class AccessError(ConverseError, PermissionError):
    """A daemon denies a client's request.

    Attributes:
        fault: ``AUTHENTICATION``: the client is unknown; ``PERMISSION``: it lacks the permission;
            ``RATE_LIMITED``: too many requests for now; ``QUOTA``: its budget is spent.
        subject: The name under which the client is known; empty for an unknown client.
        retry_after_seconds: The delay before a retry, if waiting helps.
    """

    WORD: ClassVar[str] = "access"
    fault: ProviderFault = ProviderFault.PERMISSION
    subject: str = ""
    retry_after_seconds: float | None = None
    stage: Stage = Stage.CONFIGURE

    @property
    def is_retryable(self) -> bool:
        """True if waiting helps."""
        return self.fault is ProviderFault.RATE_LIMITED


class GuardError(ConverseError, PermissionError):
    """The guard ``guard`` refused the ``part``: ``request``, ``answer`` or ``arguments``."""

    WORD: ClassVar[str] = "guard"
    guard: str = ""
    part: str = ""
    stage: Stage = Stage.EXECUTE


class StoreError(ConverseError, OSError):
    """A conversation, or another file of the user's (``path``), cannot be read or written."""

    WORD: ClassVar[str] = "store"
    path: str = ""
    stage: Stage = Stage.STORE


class UnknownConversationError(StoreError, LookupError):
    """No conversation has the id ``identity``, or an id that begins with it."""

    WORD: ClassVar[str] = "unknown-conversation"
    identity: str = ""

    def describe(self) -> str:
        return self.detail or f"Unknown conversation {self.identity!r}."


class AmbiguousIdentityError(StoreError, LookupError):
    """The shortened id ``identity`` matches several conversations: ``candidates``."""

    WORD: ClassVar[str] = "ambiguous-identity"
    identity: str = ""
    candidates: tuple[str, ...] = ()

    def describe(self) -> str:
        return self.detail or f"Ambiguous id {self.identity!r}: {', '.join(self.candidates)}."


class StoreUnavailableError(StoreError):
    """The database of a store is unreachable, is locked for a long time, or came back without the
    last writes.
    """

    WORD: ClassVar[str] = "store-unavailable"


class StaleConversationError(StoreError):
    """Another writer changed the conversation ``identity`` since it was read; nothing was added."""

    WORD: ClassVar[str] = "stale-conversation"
    identity: str = ""

    def describe(self) -> str:
        return self.detail or f"Conversation {self.identity} has grown: another writer changed it."


class CorruptionError(StoreError, ValueError):
    """Stored data is damaged, in ``line`` of its file; 0 if the damage is not in a line."""

    WORD: ClassVar[str] = "corruption"
    line: int = 0

    def describe(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {super().describe()}" if place else super().describe()


class EnsembleError(ConverseError, ConnectionError):
    """The ensemble ``ensemble`` could not be connected, surveyed or disconnected."""

    WORD: ClassVar[str] = "ensemble"
    ensemble: str = ""
    stage: Stage = Stage.CONNECT

    def describe(self) -> str:
        return self.detail or f"The ensemble {self.ensemble!r} cannot be used."


class ForeignError(ConverseError, RuntimeError):
    """An error of which only a description is available, such as one from another process.

    Attributes:
        type: The name of the original class.
        word: The stable word of the original class, if that belongs to this package.
    """

    WORD: ClassVar[str] = "foreign"
    type: str = ""
    word: str = "foreign"

    def describe(self) -> str:
        return ": ".join(filter(None, (self.type, self.detail))) or super().describe()

"""Every error that a caller can meet.

::

    ConverseError (Exception)
    ├── ConfigurationError (ValueError)          what the user wrote does not hold
    ├── TrustError (PermissionError)             code or a download was not consented to
    ├── DependencyError (ImportError)            an optional package is missing
    ├── PluginError (ImportError)                a plugin could not be loaded
    ├── UnknownNameError (LookupError)           no such provider, model, control …
    ├── WeightsError (OSError)                   a local model's weights cannot be had
    ├── RequestError (ValueError)                a request that makes no sense
    │   ├── ControlError                         a control value out of its domain
    │   ├── CapabilityError                      the model cannot do what is asked
    │   └── ContextOverflowError                 more input than the model's window
    ├── TranslationLossError (ValueError)        `strict`, and something would be lost
    ├── CodecError (ValueError)                  data that does not read as ours
    ├── ParseError (ValueError)                  an answer did not become what was wanted
    ├── LimitError (RuntimeError)                a named limit was reached
    ├── TransportError (ConnectionError)         the other side cannot be reached
    │   └── TransportTimeoutError (TimeoutError)  it kept us waiting longer than a setting allows
    ├── StreamTruncatedError (EOFError)          a stream ended without its terminator
    ├── ProviderError (RuntimeError)             the vendor answered with an error
    ├── AccessError (PermissionError)            a daemon of ours does not let a client ask this
    ├── StoreError (OSError)                     a conversation cannot be read or written
    │   ├── UnknownConversationError (LookupError)
    │   ├── AmbiguousIdentityError (LookupError)
    │   ├── StaleConversationError               others have written to it meanwhile
    │   ├── StoreUnavailableError                its database is away, or was, and may come back
    │   └── CorruptionError (ValueError)
    ├── EnsembleError (ConnectionError)          an ensemble of invocables cannot be used
    └── ForeignError (RuntimeError)              not ours, from another process

A class names what went wrong; its fields are the facts, for programs; ``str`` composes them into
a line for people: what happened, to which thing, what to do next. ``stage`` says where.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any, ClassVar, cast

from vibe_llms.foundation.error_facts import Factual
from vibe_llms.foundation.error_facts import Stage as Stage
from vibe_llms.foundation.error_facts import access_facts as access_facts
from vibe_llms.foundation.findings import Finding as Finding
from vibe_llms.foundation.suggestions import suggest


def end_sentence(text: str) -> str:
    """Puts the stop behind what happened, so that another sentence can follow."""
    return end if (end := text.rstrip()).endswith((".", "?", "!", ":")) else f"{end}."


class ConverseError(Factual, Exception):
    """Base class of all errors of this package.

    Attributes:
        detail: What happened, as one sentence without its remedy.
        remedy: The fix for the user; may be empty.
        stage: The stage in which it happened.
    """

    WORD: ClassVar[str] = "error"
    """The stable word that names the class in its JSON form."""
    sent: ClassVar[int] = 1
    missed: ClassVar[int] = 0
    """How often the request was sent that failed, and how often, before the last time, that did
    not reach the vendor; as far as is known, and no facts."""

    detail: str = ""
    remedy: str = ""
    stage: Stage = Stage.PROVIDER

    @property
    def arrived(self) -> tuple[Any, ...]:
        """The canisters which had arrived of an answer that broke off; no fact, never encoded."""
        return cast(tuple[Any, ...], self.__dict__.get("_arrived", ()))

    def keep_arrived(self, canisters: Iterable[Any], *, sent: int = 1, missed: int = 0) -> None:
        """Lets the error carry what had arrived before it, and how often the request was sent."""
        self.__dict__.update(_arrived=tuple(canisters), sent=sent, missed=missed)

    @property
    def is_retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return False

    def describe(self) -> str:
        """Composes what happened from the facts; subclasses refine it."""
        return self.detail or type(self).__name__

    def __str__(self) -> str:
        text = self.describe()
        return f"{end_sentence(text)} {self.remedy}" if self.remedy else text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class ConfigurationError(ConverseError, ValueError):
    """What the user wrote does not hold; all findings at once."""

    WORD: ClassVar[str] = "configuration"
    findings: tuple[Finding, ...] = ()
    stage: Stage = Stage.CONFIGURE

    @classmethod
    def at(cls, place: str, message: str, line: int = 0, column: int = 0) -> ConfigurationError:
        """Makes the error of one mistake; see :class:`Finding`."""
        return cls(findings=(Finding(place=place, line=line, column=column, message=message),))

    def describe(self) -> str:
        return "\n".join(map(str, self.findings)) or super().describe()


class TrustError(ConverseError, PermissionError):
    """Running code, installing or downloading was not consented to; ``subject`` names what."""

    WORD: ClassVar[str] = "trust"
    subject: str = ""
    stage: Stage = Stage.CONFIGURE


class DependencyError(ConverseError, ImportError):
    """An optional ``package`` is missing; ``remedy`` holds the command that installs it."""

    WORD: ClassVar[str] = "dependency"
    package: str = ""
    stage: Stage = Stage.CONFIGURE


class PluginError(ConverseError, ImportError):
    """A ``plugin`` could not be loaded or broke its contract; the others go on without it."""

    WORD: ClassVar[str] = "plugin"
    plugin: str = ""
    stage: Stage = Stage.CONFIGURE


class UnknownNameError(ConverseError, LookupError):
    """A name that nothing answers to.

    Attributes:
        kind: What was looked for, such as ``provider`` or ``model``.
        name: The name as given.
        known: The names that would have been right, nearest first.
    """

    WORD: ClassVar[str] = "unknown-name"
    kind: str = "name"
    name: str = ""
    known: tuple[str, ...] = ()
    stage: Stage = Stage.CONFIGURE

    def describe(self) -> str:
        if self.detail:
            return self.detail
        end = suggest(self.name, self.known)
        known = f" Known: {', '.join(sorted(self.known))}." if self.known and end == "." else ""
        return f"There is no {self.kind} {self.name!r}{end}{known}"


class WeightsError(ConverseError, OSError):
    """The weights of a local model, in ``path``, are missing, damaged or not what was pinned."""

    WORD: ClassVar[str] = "weights"
    path: str = ""
    stage: Stage = Stage.CONFIGURE


class RequestError(ConverseError, ValueError):
    """A request that makes no sense, found before anything was sent.

    Attributes:
        path: The place in the request, such as ``canisters[3].content[0]``.
    """

    WORD: ClassVar[str] = "request"
    path: str = ""
    stage: Stage = Stage.TRANSLATE


class ControlError(RequestError):
    """The value of a ``control`` is outside its domain, or no control has this name."""

    WORD: ClassVar[str] = "control"
    control: str = ""


class CapabilityError(RequestError):
    """The ``model`` is known to lack a ``capability`` that is asked of it."""

    WORD: ClassVar[str] = "capability"
    model: str = ""
    capability: str = ""


class ContextOverflowError(RequestError):
    """The input, or input and wanted output, exceed the model's window. Sizes in tokens."""

    WORD: ClassVar[str] = "context-overflow"
    remedy: str = (
        'Begin anew, set window = "drop" or "summarize", or ask a model with a larger one.'
    )
    model: str = ""
    tokens: int | None = None
    limit: int | None = None


class TranslationLossError(ConverseError, ValueError):
    """``strict`` was asked for and the translation would lose something.

    Attributes:
        losses: One line each, as :class:`vibe_llms.messages.losses.Loss` prints itself.
    """

    WORD: ClassVar[str] = "translation-loss"
    losses: tuple[str, ...] = ()
    stage: Stage = Stage.TRANSLATE

    def describe(self) -> str:
        return self.detail or f"The translation would lose: {'; '.join(self.losses)}."


class CodecError(ConverseError, ValueError):
    """Data that does not read as ours.

    Attributes:
        path: The place, such as ``$.content[1].type``.
        known: The words which would have been right there, if it is a matter of words.
    """

    WORD: ClassVar[str] = "codec"
    path: str = "$"
    known: tuple[str, ...] = ()
    stage: Stage = Stage.DECODE

    def describe(self) -> str:
        text = f"{self.detail} @ {self.path}"
        return f"{text} (known: {', '.join(self.known)})" if self.known else text


class ParseError(ConverseError, ValueError):
    """An answer did not become what was wanted. ``arrived`` has what all attempts brought.

    Attributes:
        kind: What was wanted, such as ``City``.
        text: What arrived last, as the model wrote it.
        faults: What is wrong with that, one line each.
        attempts: How many answers were asked for.
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
        return f"The answer is no {self.kind}{times}: {'; '.join(self.faults)}."


class LimitError(ConverseError, RuntimeError):
    """A named limit was reached.

    Attributes:
        limit: The name under which the limit is set.
        value: Its value, in the unit its name tells.
    """

    WORD: ClassVar[str] = "limit"
    limit: str = ""
    value: float = 0

    def describe(self) -> str:
        return self.detail or f"The limit {self.limit} = {self.value:.15g} was reached."


class TransportError(ConverseError, ConnectionError):
    """The other side could not be reached, or went away before it answered.

    Attributes:
        should_retry: False where it will be so until somebody changes something, as with a
            certificate that is not trusted; else ``None``.
    """

    WORD: ClassVar[str] = "transport"
    address: str = ""
    should_retry: bool | None = None
    stage: Stage = Stage.CONNECT

    @property
    def is_retryable(self) -> bool:
        """Whether the same request may succeed later: nothing of an answer had arrived."""
        if self.arrived or self.should_retry is False:
            return False
        return getattr(self, "phase", "") != "total"  # all its time is over


class TransportTimeoutError(TransportError, TimeoutError):
    """The other side kept us waiting for longer than a setting allows.

    Attributes:
        phase: What was waited for: ``connect``, ``first-byte``, ``between-chunks`` or ``total``.
        seconds: How long it was waited for.
    """

    WORD: ClassVar[str] = "transport-timeout"
    phase: str = ""
    seconds: float = 0

    def describe(self) -> str:
        return self.detail or (
            f"{self.address or 'The other side'} kept us waiting: the {self.phase} timeout of "
            f"{self.seconds:g} seconds has passed."
        )


class StreamTruncatedError(ConverseError, EOFError):
    """A stream ended without its terminator; what had arrived is kept."""

    WORD: ClassVar[str] = "stream-truncated"
    stage: Stage = Stage.FRAME

    @property
    def is_retryable(self) -> bool:
        """Whether the same request may succeed later: nothing of an answer had arrived."""
        return not self.arrived


class ProviderFault(enum.StrEnum):
    """What a vendor's error means, whatever words the vendor has for it."""

    AUTHENTICATION = "authentication"
    PERMISSION = "permission"
    QUOTA = "quota"
    NOT_FOUND = "not-found"
    INVALID_REQUEST = "invalid-request"
    BLOCKED = "blocked"
    RATE_LIMITED = "rate-limited"
    OVERLOADED = "overloaded"
    SERVER = "server"
    TIMEOUT = "timeout"
    UNKNOWN = "unknown"


RETRYABLE_FAULTS = frozenset(
    {
        ProviderFault.RATE_LIMITED,
        ProviderFault.OVERLOADED,
        ProviderFault.SERVER,
        ProviderFault.TIMEOUT,
    }
)


class ProviderError(ConverseError, RuntimeError):
    """The vendor answered with an error.

    Attributes:
        provider: The provider's name.
        fault: What the error means.
        status: The HTTP status; ``None`` where there was none.
        vendor_type, vendor_code: The kind of error, and its code, in the vendor's own words.
        vendor_param: The field of the request that the vendor finds fault with, likewise.
        request_id: The vendor's name for the exchange, for its support.
        retry_after_seconds: How long the vendor asks to wait.
        should_retry: What the vendor says of trying again; ``None`` where it says nothing.
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
        """Whether the same request may succeed later: the vendor knows best, if it says."""
        return self.fault in RETRYABLE_FAULTS if self.should_retry is None else self.should_retry


class AccessError(ConverseError, PermissionError):
    """A daemon of ours does not let a client ask this, or not now.

    Attributes:
        fault: ``AUTHENTICATION``: nobody knows who asks; ``PERMISSION``: not for them;
            ``RATE_LIMITED``: not yet; ``QUOTA``: their budget is spent.
        subject: Who asks, by the name under which they are known; empty where nobody is.
        retry_after_seconds: When it may be asked again, where waiting helps.
    """

    WORD: ClassVar[str] = "access"
    fault: ProviderFault = ProviderFault.PERMISSION
    subject: str = ""
    retry_after_seconds: float | None = None
    stage: Stage = Stage.CONFIGURE

    @property
    def is_retryable(self) -> bool:
        """Whether waiting helps."""
        return self.fault is ProviderFault.RATE_LIMITED


class StoreError(ConverseError, OSError):
    """A conversation, or another file of the user's (``path``), cannot be read or written."""

    WORD: ClassVar[str] = "store"
    path: str = ""
    stage: Stage = Stage.STORE


class UnknownConversationError(StoreError, LookupError):
    """No conversation has the id ``identity``, nor one that begins so."""

    WORD: ClassVar[str] = "unknown-conversation"
    identity: str = ""

    def describe(self) -> str:
        return self.detail or f"There is no conversation {self.identity!r}."


class AmbiguousIdentityError(StoreError, LookupError):
    """The shortened id ``identity`` fits several conversations: ``candidates``."""

    WORD: ClassVar[str] = "ambiguous-identity"
    identity: str = ""
    candidates: tuple[str, ...] = ()

    def describe(self) -> str:
        return self.detail or f"{self.identity!r} fits several: {', '.join(self.candidates)}."


class StoreUnavailableError(StoreError):
    """The database of a store is out of reach, has something locked for long, or came back without
    what was written last."""

    WORD: ClassVar[str] = "store-unavailable"


class StaleConversationError(StoreError):
    """Others have written to the conversation ``identity`` since it was read; nothing was added."""

    WORD: ClassVar[str] = "stale-conversation"
    identity: str = ""

    def describe(self) -> str:
        return self.detail or f"Conversation {self.identity} has grown: others write to it too."


class CorruptionError(StoreError, ValueError):
    """Stored data is damaged, in ``line`` of its file; 0 where the damage is not in a line."""

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
    """What is left of an error that is not one of ours, or of a cause, from another process.

    Attributes:
        type: The name of its class.
        word: The stable word of its class, where that was one of ours.
    """

    WORD: ClassVar[str] = "foreign"
    type: str = ""
    word: str = "foreign"

    def describe(self) -> str:
        return ": ".join(filter(None, (self.type, self.detail))) or super().describe()

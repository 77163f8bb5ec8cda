"""Authorizer of a daemon: identifies keys, and reserves and settles what they use."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vibe_llms.daemons.keys.administration import KeyAdministration
from vibe_llms.daemons.keys.admitting import AdmissionGate
from vibe_llms.daemons.keys.charges import (
    DAY_SECONDS,
    ActualUsage,
    Charge,
    bound_cents,
    bound_tokens,
    clean_model,
    write_day,
)
from vibe_llms.daemons.keys.journal import FOLDER, KeyJournal
from vibe_llms.daemons.keys.ledger import AdmissionRequest, KeyLedger
from vibe_llms.daemons.keys.register import Key, Register
from vibe_llms.daemons.keys.texts import DUMMY_DIGEST, Compare, extract_identity, find_typo, matches
from vibe_llms.exceptions import AccessError, ConfigurationError, Finding, ProviderFault, StoreError
from vibe_llms.logs.disk import Disk

if TYPE_CHECKING:
    from vibe_llms.messages.canisters import Usage
    from vibe_llms.plugins.specification.daemons import Arrival, AuthorizerContext, Demand

_LOGGER: Final = logging.getLogger("vibe_llms.daemons.keys")

_JOURNAL_BYTES: Final = 4_000_000
"""Size after which to start a new journal."""

_FOLDING_SECONDS: Final = 1.0
"""Interval for adding the journal to the sums. It affects only the length of the journal."""

_REMEDY = "Ask the operator of this server for a key: vibe keys add NAME."


def produce_authorizer(context: AuthorizerContext) -> KeyAuthorizer:
    """Return the authorizer. Raises ConfigurationError, StoreError."""
    if unknown := sorted(context.settings):
        finding = Finding(
            place=f"plugins.{context.name}.{unknown[0]}",
            message="Unknown setting. Limits belong to each key: vibe keys add --help.",
        )
        raise ConfigurationError(findings=(finding,))
    return KeyAuthorizer(context.data_directory, read_clock=context.clock.read)


class KeyAuthorizer:
    """Authenticates clients by bearer keys. Belongs to one event loop.

    Args:
        directory: Keys and sums, shared by all processes.
        read_clock: Returns monotonic seconds, which are equal in all processes of a machine.
        read_time: Returns seconds since 1970.
        disk: Performs every change of the journal.
        compare: Compares digests in constant time.

    Raises:
        StoreError: The directory is unusable.
    """

    def __init__(
        self,
        directory: Path,
        *,
        read_clock: Callable[[], float] = time.monotonic,
        read_time: Callable[[], float] = time.time,
        disk: Disk | None = None,
        compare: Compare = hmac.compare_digest,
    ) -> None:
        self._register = Register(directory, read_time)
        self._register.load()
        self._ledger = KeyLedger(directory, read_clock=read_clock, read_time=read_time)
        self._folder, self._disk = directory / FOLDER, disk or Disk()
        self._tell_time, self._compare = read_time, compare
        try:
            self._ledger.fold()
            self._journal = KeyJournal(self._folder, self._disk)
        except BaseException:
            self._ledger.close()
            raise
        self._gate = AdmissionGate(self._ledger)
        self._is_dirty = asyncio.Event()
        self._folding: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._folder.parent)!r})"

    @property
    def administration(self) -> KeyAdministration:
        """Administration of the keys, for an operator."""
        return KeyAdministration(self._register)

    async def authorize(self, arrival: Arrival) -> KeyGrant:
        """Return the grant of a key.

        Raises:
            AccessError: The key is unknown, revoked or expired.
            ConfigurationError: The file of keys is invalid.
        """
        text = arrival.credential
        identity = extract_identity(text)
        key = await self._find_key(identity)
        if (
            not matches(text, DUMMY_DIGEST if key is None else key.digest, self._compare)
            or key is None
        ):
            raise _describe_unknown(text)
        self._ensure_valid(key)
        if self._folding is None:
            self._folding = asyncio.create_task(self._fold_regularly())
        return KeyGrant(self, identity, key)

    async def _find_key(self, identity: str) -> Key | None:
        """Return the key with a public part, as the file has it now; ``None`` if it is unknown."""
        keys = self._register.access_keys()
        if keys is None:
            keys = await asyncio.to_thread(self._register.load)
        return keys.get(identity)

    def _ensure_valid(self, key: Key) -> None:
        """Raise AccessError if a key is revoked or expired."""
        if key.revoked is not None or key.expires_at <= self._tell_time():
            raise _describe_invalid(key)

    async def reserve(self, identity: str, demand: Demand) -> KeyReservation:
        """Reserve the charge of a request durably.

        The key is looked up again: a connection or a batch may outlast it, or get other limits.
        """
        key = await self._find_key(identity)
        if key is None:
            raise _describe_unknown("")
        self._ensure_valid(key)
        _ensure_model(key, demand.model)
        charge = Charge(
            identity,
            write_day(int(self._tell_time() // DAY_SECONDS)),
            clean_model(demand.address),
            bound_tokens(demand.input_tokens),
            bound_tokens(demand.output_tokens or 0),
            bound_cents(demand.cents),
        )
        journal = self._journal
        if not key.is_bounded:
            number = journal.begin(charge)
        else:
            number = journal.allocate_number()
            request = AdmissionRequest(key, charge, journal.name, number, demand.is_paced)
            await self._gate.admit(request, journal)
        self._is_dirty.set()
        return KeyReservation(journal, number, self._is_dirty, self._ledger)

    async def settle_deferred(self, name: str, usage: ActualUsage) -> bool:
        """Replace the reservation of a deferred request by its actual usage, once."""
        return await asyncio.to_thread(self._ledger.correct, name, usage)

    async def close(self) -> None:
        """Add the journal to the sums. Requests under way count as perhaps sent."""
        if self._folding is not None:
            self._folding.cancel()
            with suppress(asyncio.CancelledError):
                await self._folding
        await self._gate.close()
        self._journal.close()
        try:
            await asyncio.to_thread(self._ledger.fold)
        except StoreError as error:  # the next process reads the journal
            _LOGGER.warning("%s", error)
        finally:
            await asyncio.to_thread(self._ledger.close)

    async def _fold_regularly(self) -> None:
        """Add the journal to the sums regularly; start a new journal if the current one is long."""
        while True:
            await self._is_dirty.wait()
            await asyncio.sleep(_FOLDING_SECONDS)
            self._is_dirty.clear()
            try:
                await asyncio.to_thread(self._ledger.fold)
                if self._journal.size_bytes > _JOURNAL_BYTES:
                    new = await asyncio.to_thread(KeyJournal, self._folder, self._disk)
                    previous, self._journal = self._journal, new
                    previous.retire()
            except (StoreError, OSError) as error:  # `reserve` reports the error
                _LOGGER.warning("%s", error)


class KeyGrant:
    """Permissions of a client with a key."""

    __slots__ = ("_authorizer", "_identity", "_key")

    def __init__(self, authorizer: KeyAuthorizer, identity: str, key: Key) -> None:
        self._authorizer, self._identity, self._key = authorizer, identity, key

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.subject!r})"

    @property
    def subject(self) -> str:
        """The name of the key."""
        return self._key.name

    @property
    def is_operator(self) -> bool:
        """Permission to operate the daemon."""
        return self._key.operator

    def admits(self, model: str) -> bool:
        """Return whether one of the key's patterns matches a model."""
        return _admits(self._key, model)

    async def reserve(self, demand: Demand) -> KeyReservation:
        """Reserve the most that a request may use.

        Raises:
            AccessError: A limit of the key is reached, the model is not allowed, or the key was
                revoked or has expired meanwhile.
            StoreError: The reservation cannot be written, so nothing may be sent.
        """
        return await self._authorizer.reserve(self._identity, demand)

    async def settle_deferred(self, name: str, usage: Usage, cents: Decimal | None) -> bool:
        """Replace the reservation of a deferred request by its actual usage, once.

        Raises:
            StoreError: The usage cannot be written; the reservation stays.
        """
        return await self._authorizer.settle_deferred(name, _read_usage(usage, cents))


class KeyReservation:
    """Reservation of one request."""

    __slots__ = ("_deferred", "_is_dirty", "_journal", "_ledger", "_number")

    def __init__(
        self, journal: KeyJournal, number: int, is_dirty: asyncio.Event, ledger: KeyLedger
    ) -> None:
        self._journal, self._number, self._is_dirty = journal, number, is_dirty
        self._ledger, self._deferred = ledger, ""

    async def defer(self, name: str) -> None:
        """Settle by the reservation, until the actual usage is known here or by the name.

        Raises:
            StoreError: This cannot be written; the reservation is as before.
        """
        if self._number:
            await asyncio.to_thread(self._ledger.defer, self._journal.name, self._number, name)
            self._number, self._deferred = 0, name
            self._journal.free_number()

    async def settle(self, usage: Usage | None, cents: Decimal | None) -> None:
        """Replace the reservation with the actual usage; unknown parts stay reserved."""
        actual = _read_usage(usage, cents)
        if not self._deferred:
            self._end(actual)
        elif usage is not None:
            try:
                await asyncio.to_thread(self._ledger.correct, self._deferred, actual)
            except StoreError as error:  # the reservation stays
                _LOGGER.warning("%s", error)

    async def release(self) -> None:
        """Cancel the reservation: nothing was sent."""
        self._end(None)

    def _end(self, usage: ActualUsage | None) -> None:
        number, self._number = self._number, 0
        if not number:
            return  # settled before
        try:
            self._journal.end(number, usage)
        except StoreError as error:  # the reservation stays, as the request is over
            _LOGGER.warning("%s", error)
        self._is_dirty.set()


def _read_usage(usage: Usage | None, cents: Decimal | None) -> ActualUsage:
    counts: tuple[int | None, int | None] = (None, None)
    if usage is not None:
        counts = (usage.total_input_tokens, usage.total_output_tokens)
    inputs, outputs = (None if count is None else bound_tokens(count) for count in counts)
    return ActualUsage(inputs, outputs, bound_cents(cents))


def _admits(key: Key, model: str) -> bool:
    return not key.models or any(fnmatchcase(model, pattern) for pattern in key.models)


def _ensure_model(key: Key, model: str) -> None:
    """Raise AccessError if a key may not use a model."""
    if not _admits(key, model):
        raise AccessError(
            fault=ProviderFault.PERMISSION,
            subject=key.name,
            detail=f"The key {key.name!r} may not use the model {model!r}.",
            remedy=f"Use one of: {', '.join(key.models)}.",
        )


def _describe_unknown(text: str) -> AccessError:
    detail = find_typo(text) if text else "The API key is missing."
    return AccessError(
        fault=ProviderFault.AUTHENTICATION,
        detail=detail or "Unknown key.",
        remedy=_REMEDY,
    )


def _describe_invalid(key: Key) -> AccessError:
    problem, moment = "has expired", key.expires
    if key.revoked:
        problem, moment = "was revoked", key.revoked
    return AccessError(
        fault=ProviderFault.AUTHENTICATION,
        subject=key.name,
        detail=f"The key {key.name!r} {problem} ({moment:%Y-%m-%d %H:%M} UTC).",
        remedy=_REMEDY,
    )

"""Administration of keys, for the operator of a daemon."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from vibe_llms.daemons.keys.descriptions import KeyDescription, describe_key
from vibe_llms.daemons.keys.register import Key, Register
from vibe_llms.daemons.keys.texts import compute_digest, extract_identity, generate_key
from vibe_llms.exceptions import UnknownNameError

if TYPE_CHECKING:
    from vibe_llms.daemons.keys.ledger import KeyAccount


class KeyAdministration:
    """Adds, limits and revokes the keys in a folder, and reads what they spent.

    The disk is used in threads. Changes apply to the next request in every process.

    Args:
        register: The keys; the authorizer may use it, too.
    """

    def __init__(self, register: Register) -> None:
        self._register = register
        self._directory, self._tell_time = register.directory, register.read_time

    async def survey_keys(self) -> list[KeyDescription]:
        """Return all keys. Raises ConfigurationError if the file of keys is invalid."""
        return await asyncio.to_thread(self._survey_keys)

    def _survey_keys(self) -> list[KeyDescription]:
        now = self._tell_time()
        return [describe_key(identity, key, now) for identity, key in self._register.load().items()]

    async def ensure(self, identity: str) -> None:
        """Raise UnknownNameError unless a key has this public part; a name is not enough."""
        if identity not in await asyncio.to_thread(self._register.load):
            remedy = "GET /operate/keys lists the keys."
            raise UnknownNameError(kind="key", name=identity, remedy=remedy)

    async def add(self, name: str, limits: Mapping[str, Any]) -> tuple[str, KeyDescription]:
        """Create a key; return its text, which is not stored, and its description.

        Args:
            name: Name of its owner.
            limits: Valid values of :data:`.register.LIMITS`.

        Raises:
            RequestError: A valid key has this name.
            StoreError: The file cannot be written.
        """
        text = generate_key()
        identity = extract_identity(text)
        key = Key(name=name, digest=compute_digest(text), created=self.read_now(), **limits)
        await asyncio.to_thread(self._register.add, identity, key)
        return text, describe_key(identity, key, self._tell_time())

    async def limit(self, identity: str, limits: Mapping[str, Any]) -> KeyDescription:
        """Change limits of a key; see :meth:`.Register.limit`. Raises UnknownNameError."""
        return await self._change(self._register.limit, identity, limits)

    async def revoke(self, identity: str) -> KeyDescription:
        """Revoke a key. Raises UnknownNameError."""
        return await self._change(self._register.revoke, identity)

    async def _change(
        self, change: Callable[..., tuple[str, Key]], *arguments: object
    ) -> KeyDescription:
        found, key = await asyncio.to_thread(change, *arguments)
        return describe_key(found, key, self._tell_time())

    async def survey_spending(self, since: str) -> KeyAccount:
        """Return the spending of all keys since a day, such as ``2026-11-23`` (UTC).

        Raises:
            StoreError: The database cannot be used.
        """
        return await asyncio.to_thread(self._survey_spending, since)

    def _survey_spending(self, since: str) -> KeyAccount:
        from vibe_llms.daemons.keys.ledger import KeyLedger

        # A connection of its own: reading much must not delay the admission of requests.
        ledger = KeyLedger(self._directory, read_clock=time.monotonic, read_time=self._tell_time)
        with closing(ledger):
            return ledger.survey(since)

    def read_now(self) -> datetime:
        """Return the present second."""
        return datetime.fromtimestamp(int(self._tell_time()), UTC)

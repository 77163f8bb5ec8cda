"""Contract of authorizers: inherit it, implement the factory, and run it with pytest."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from vibe_llms.exceptions import AccessError, ProviderFault
from vibe_llms.messages.canisters import Usage
from vibe_llms.plugins.specification.daemons import Arrival, Authorizer, Demand, Grant
from vibe_llms.testing.contracts.promises import BrokenPromise, require

DEMAND: Final = Demand(
    model="small", address="scripted:echo", input_tokens=10, output_tokens=20, cents=Decimal("0.01")
)
USAGE: Final = Usage(input_tokens=10, output_tokens=5)


class AuthorizerContract:
    """Contract of every authorizer; ``produce_authorizer`` makes the one under test.

    Attributes:
        credential: A known key, valid for at least ten requests.
    """

    credential: str = ""

    def produce_authorizer(self, directory: Path) -> Authorizer:
        """Make an authorizer that knows the credential.

        Args:
            directory: For its data; empty.
        """
        raise NotImplementedError

    def test_nobody_is_let_in_without_a_key_or_with_an_unknown_one(self, tmp_path: Path) -> None:
        """The error is 401."""

        async def try_others(authorizer: Authorizer) -> None:
            for credential in ("", "nobody's", self.credential + "x", self.credential[:-1]):
                shown = "a wrong key" if credential else "no key"
                try:
                    await authorizer.authorize(_arrive(credential))
                    happened = "lets them in"
                except AccessError as error:
                    happened = f"raises AccessError with the fault {error.fault}"
                    if error.fault is ProviderFault.AUTHENTICATION:
                        continue
                except Exception as error:
                    happened = f"raises {type(error).__name__}"
                raise BrokenPromise(
                    f"Whoever shows {shown}, authorize {happened}. "
                    "Raise AccessError with the fault AUTHENTICATION."
                )

        self._perform(tmp_path, try_others)

    def test_a_grant_has_a_name_which_is_not_the_key(self, tmp_path: Path) -> None:
        """The name goes into logs."""

        async def look(authorizer: Authorizer) -> None:
            grant = await self._enter(authorizer)
            require(bool(grant.subject), "The subject is empty.", "Name who asks.")
            told = f"{grant.subject} {grant!r} {authorizer!r}"
            is_hidden = self.credential not in told
            require(is_hidden, "It shows the key.", "Leave the key out of names and of repr.")

        self._perform(tmp_path, look)

    def test_requests_are_reserved_and_settled_many_at_once(self, tmp_path: Path) -> None:
        """Known usage, unknown usage, and unsent requests, in any order."""

        async def ask(authorizer: Authorizer) -> None:
            grant = await self._enter(authorizer)
            require(grant.admits(DEMAND.model), "It admits no model.", "Let it admit 'small'.")
            reservations = await asyncio.gather(*(grant.reserve(DEMAND) for _ in range(6)))
            await asyncio.gather(
                *(each.settle(USAGE, Decimal("0.004")) for each in reservations[:2]),
                *(each.settle(None, None) for each in reservations[2:4]),
                *(each.release() for each in reservations[4:]),
            )
            await (await grant.reserve(DEMAND)).release()

        self._perform(tmp_path, ask)

    def _perform(self, directory: Path, act: Callable[[Authorizer], Awaitable[None]]) -> None:
        async def perform() -> None:
            authorizer = self.produce_authorizer(directory)
            try:
                await act(authorizer)
            finally:
                await authorizer.close()

        asyncio.run(perform())

    async def _enter(self, authorizer: Authorizer) -> Grant:
        return await authorizer.authorize(_arrive(self.credential))


def _arrive(credential: str) -> Arrival:
    headers: dict[str, Any] = {"authorization": f"Bearer {credential}"} if credential else {}
    return Arrival(
        method="POST", path="/v1/messages", headers=headers, credential=credential, client="::1"
    )

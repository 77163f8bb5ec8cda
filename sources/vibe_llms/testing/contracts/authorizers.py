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
    """Contract of every authorizer; override ``produce_authorizer`` to make the one under test.

    Attributes:
        credential: A known key, valid for at least ten requests.
    """

    credential: str = ""

    def produce_authorizer(self, directory: Path) -> Authorizer:
        """Make an authorizer that accepts the credential.

        Args:
            directory: An empty directory for its data.
        """
        raise NotImplementedError

    def test_nobody_is_let_in_without_a_key_or_with_an_unknown_one(self, tmp_path: Path) -> None:
        """The error is 401."""

        async def try_invalid_keys(authorizer: Authorizer) -> None:
            for credential in ("", "nobody's", self.credential + "x", self.credential[:-1]):
                key = "a wrong key" if credential else "no key"
                try:
                    await authorizer.authorize(_produce_arrival(credential))
                    outcome = "accepts the request"
                except AccessError as error:
                    outcome = f"raises AccessError with the fault {error.fault}"
                    if error.fault is ProviderFault.AUTHENTICATION:
                        continue
                except Exception as error:
                    outcome = f"raises {type(error).__name__}"
                raise BrokenPromise(
                    f"With {key}, authorize {outcome}. "
                    "Raise AccessError with the fault AUTHENTICATION."
                )

        self._run_with_authorizer(tmp_path, try_invalid_keys)

    def test_a_grant_has_a_name_which_is_not_the_key(self, tmp_path: Path) -> None:
        """The name goes into logs."""

        async def check_names(authorizer: Authorizer) -> None:
            grant = await self._authorize(authorizer)
            require(
                bool(grant.subject), "The subject is empty.", "Set it to the name of the caller."
            )
            shown = f"{grant.subject} {grant!r} {authorizer!r}"
            is_hidden = self.credential not in shown
            require(is_hidden, "The key is visible.", "Leave the key out of names and of repr.")

        self._run_with_authorizer(tmp_path, check_names)

    def test_requests_are_reserved_and_settled_many_at_once(self, tmp_path: Path) -> None:
        """Known usage, unknown usage, and unsent requests, in any order."""

        async def reserve(authorizer: Authorizer) -> None:
            grant = await self._authorize(authorizer)
            require(grant.admits(DEMAND.model), "It admits no model.", "Let it admit 'small'.")
            reservations = await asyncio.gather(*(grant.reserve(DEMAND) for _ in range(6)))
            await asyncio.gather(
                *(each.settle(USAGE, Decimal("0.004")) for each in reservations[:2]),
                *(each.settle(None, None) for each in reservations[2:4]),
                *(each.release() for each in reservations[4:]),
            )
            await (await grant.reserve(DEMAND)).release()

        self._run_with_authorizer(tmp_path, reserve)

    def test_usage_that_is_known_later_counts_once(self, tmp_path: Path) -> None:
        """An answer in the background is settled when the client retrieves it."""

        async def defer(authorizer: Authorizer) -> None:
            grant: Any = await self._authorize(authorizer)
            reservation: Any = await grant.reserve(DEMAND)
            if not hasattr(reservation, "defer"):
                return
            await reservation.defer("late")
            await reservation.settle(None, None)
            again: Any = await self._authorize(authorizer)
            effects = [
                await again.settle_deferred(name, USAGE, Decimal("0.004"))
                for name in ("late", "late", "unknown")
            ]
            remedy = "Return whether the usage of the request was not known before."
            require(effects == [True, False, False], f"The effects are {effects}.", remedy)

        self._run_with_authorizer(tmp_path, defer)

    def _run_with_authorizer(
        self, directory: Path, check: Callable[[Authorizer], Awaitable[None]]
    ) -> None:
        async def run() -> None:
            authorizer = self.produce_authorizer(directory)
            try:
                await check(authorizer)
            finally:
                await authorizer.close()

        asyncio.run(run())

    async def _authorize(self, authorizer: Authorizer) -> Grant:
        return await authorizer.authorize(_produce_arrival(self.credential))


def _produce_arrival(credential: str) -> Arrival:
    headers: dict[str, Any] = {"authorization": f"Bearer {credential}"} if credential else {}
    return Arrival(
        method="POST", path="/v1/messages", headers=headers, credential=credential, client="::1"
    )

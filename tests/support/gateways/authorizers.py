"""Authorizers for tests."""

from __future__ import annotations

from vibe_llms.exceptions import AccessError, ProviderFault
from vibe_llms.plugins.specification.daemons import Arrival, Demand


class FriendAuthorizer:
    """Authorizer that allows everything to one key and nothing to others; records reservations."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def authorize(self, arrival: Arrival) -> FriendAuthorizer.Grant:
        return self.Grant(self, arrival.credential)

    async def close(self) -> None:
        pass

    class Grant:
        def __init__(self, authorizer: FriendAuthorizer, subject: str) -> None:
            self.authorizer, self.subject = authorizer, subject

        def admits(self, model: str) -> bool:
            return self.subject == "friend"

        async def reserve(self, demand: Demand) -> FriendAuthorizer.Reservation:
            if self.authorizer.calls.count("reserve") == 2:
                raise AccessError(fault=ProviderFault.RATE_LIMITED, detail="Enough.")
            self.authorizer.calls.append("reserve")
            return FriendAuthorizer.Reservation(self.authorizer)

    class Reservation:
        def __init__(self, authorizer: FriendAuthorizer) -> None:
            self.authorizer = authorizer

        async def settle(self, usage: object, cents: object) -> None:
            self.authorizer.calls.append("settle" if usage is not None else "settle unknown")

        async def release(self) -> None:
            self.authorizer.calls.append("release")


class KeyAuthorizer(FriendAuthorizer):
    """Authorizer that admits any key; the key is the subject."""

    async def authorize(self, arrival: Arrival) -> FriendAuthorizer.Grant:
        if not arrival.credential:
            raise AccessError(fault=ProviderFault.AUTHENTICATION, detail="Who are you?")
        return await super().authorize(arrival)


class CertificateAuthorizer(FriendAuthorizer):
    """Authorizer that admits only some subjects of certificates, and records all of them."""

    def __init__(self, *subjects: str) -> None:
        super().__init__()
        self.subjects = subjects
        self.seen: list[str] = []

    async def authorize(self, arrival: Arrival) -> FriendAuthorizer.Grant:
        self.seen.append(arrival.certificate)
        if arrival.certificate not in self.subjects:
            raise AccessError(fault=ProviderFault.AUTHENTICATION, detail="Who are you?")
        return self.Grant(self, "friend")

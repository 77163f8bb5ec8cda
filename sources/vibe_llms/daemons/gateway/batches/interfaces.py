"""Interfaces between the runner of batches and the batch APIs of vendors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from vibe_llms.daemons.gateway.batches.results import BatchResults
from vibe_llms.daemons.gateway.batches.storage import BatchedRequest, VendorRoad
from vibe_llms.daemons.server.asgi_types import Scope
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.plugins.specification.daemons import Grant, Reservation


@frozen(kw_only=True)
class BatchClient:
    """A client that asks for its batches.

    Attributes:
        subject: Its name; empty without an authorizer.
        scope: Scope of its request, whose credentials the requests of its batches have.
        grant: Its permissions; ``None`` without an authorizer.
    """

    subject: str
    scope: Scope
    grant: Grant | None = None


class VendorFollower(Protocol):
    """Submits the requests of a road, waits, and reads their answers; each step can be resumed."""

    async def open(self) -> bool:
        """Find the target; return whether it has a batch API.

        Raises:
            ConverseError: The target cannot be used, although it may have the requests.
        """

    async def reserve(self, grant: Grant) -> Reservation:
        """Reserve the maximum cost of all requests, at the price of batches. Raises AccessError."""

    async def settle(self, reservation: Reservation) -> None:
        """Replace the reservation by the real usage of all answers."""

    async def follow(self) -> bool:
        """Submit, wait and read.

        Returns:
            Whether the vendor took all requests. If not, it does not have those without a result.

        Raises:
            ConverseError: The vendor cannot be asked, or it is unknown whether it has the requests.
            StoreError: A file cannot be written.
        """


class VendorChannel(Protocol):
    """Batch APIs of the vendors behind the gateway."""

    async def choose(
        self, grant: Grant | None, path: str, items: Sequence[BatchedRequest]
    ) -> list[VendorRoad]:
        """Choose a target with a batch API for each model that has one."""

    def produce_follower(
        self,
        road: VendorRoad,
        items: Mapping[str, BatchedRequest],
        *,
        path: str,
        journal: Path,
        results: BatchResults,
        client: BatchClient,
    ) -> VendorFollower:
        """Return the follower of a road.

        Args:
            items: All of its requests, by the clients' ids.
            path: Path of the requests.
            journal: Path of the journal of answers; the submissions are recorded beside it.
            results: Receives the answers.
        """

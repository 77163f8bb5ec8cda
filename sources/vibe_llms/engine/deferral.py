"""Deferred requests: the run is suspended until the answer arrives."""

from __future__ import annotations

from typing import Protocol

from vibe_llms.events.engine import GenerationAnsweredEvent
from vibe_llms.messages.requests import Request, Response


class RequestDeferred(Exception):
    """A request was deferred. It controls the flow within a run, and is not an error."""

    def __init__(self, request: Request) -> None:
        super().__init__()
        self.request = request


class DeferralBackend(Protocol):
    """Backend of deferred requests: puts each answer into the inbox of its run."""

    @property
    def name(self) -> str:
        """Name of the backend in the log; the same after a restart."""

    @property
    def tier(self) -> str:
        """Price tier of the vendor."""

    def put(self, conversation_id: str, request: Request) -> None:
        """Submit a request that the log has recorded as deferred; ignore a known one.

        If this process ends before the request is submitted, the run asks again.
        """

    async def read(self, event: GenerationAnsweredEvent, request: Request) -> Response:
        """Read the answer that an event reports.

        Raises:
            ConverseError: The request failed.
        """

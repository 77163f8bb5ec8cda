"""Requests that are answered later: a run rests meanwhile, and goes on with the answer."""

from __future__ import annotations

from typing import Protocol

from vibe_llms.events.engine import GenerationAnsweredEvent
from vibe_llms.messages.requests import Request, Response


class Parked(Exception):  # nothing went wrong
    """A request is to be answered later; no error, and never seen outside of a run."""

    def __init__(self, request: Request) -> None:
        super().__init__()
        self.request = request


class Parking(Protocol):
    """Who has requests answered later, and puts each answer into its run's inbox."""

    @property
    def name(self) -> str:
        """By which the log says who has a request; the same after a restart."""

    @property
    def tier(self) -> str:
        """Which of the vendor's prices holds."""

    def put(self, conversation_id: str, request: Request) -> None:
        """Takes a request, after the log has said so; one that it has already it does not take.

        When this process ends before the request was submitted, it is asked for again.
        """

    async def read(self, said: GenerationAnsweredEvent, request: Request) -> Response:
        """Reads an answer.

        Raises:
            ConverseError: There is none: why, says the error.
        """

"""Which protocol it is, and in which version both sides have to speak it."""

from __future__ import annotations

from typing import Final

from vibe_llms.exceptions import ConverseError, RequestError, Stage

PROTOCOL: Final = "converse"
"""The dialect's stable word."""

VERSION: Final = 1
"""Stands in each request, answer and stream. It is raised when what an older side reads would
mean something else to it; that an error is ``{"version": …, "error": …}`` holds in all versions."""


def ensure_asked(told: object) -> None:
    """Refuses a request in another version, for the side that serves.

    Raises:
        RequestError: It says which side is to be upgraded.
    """
    if told != VERSION:
        raise RequestError(
            path="version",
            detail=f"Here version {VERSION} of converse is spoken; it was asked in {_name(told)}.",
            remedy=_advise(told, "where it is served", "where it is asked"),
        )


def ensure_answered(told: object, provider: str) -> None:
    """Refuses an answer in another version, for the side that asks.

    Raises:
        ConverseError: It says which side is to be upgraded.
    """
    if told != VERSION:
        raise ConverseError(
            detail=f"{provider} answers in {_name(told)} of converse; here it is version "
            f"{VERSION}.",
            remedy=_advise(told, "here", f"where {provider} runs"),
            stage=Stage.DECODE,
        )


def _name(told: object) -> str:
    return f"version {told}" if isinstance(told, int) else "no version"


def _advise(told: object, ours: str, theirs: str) -> str:
    if not isinstance(told, int):
        return "Look whether the address leads to the gateway of another vibe-llms."
    return f"Upgrade vibe-llms {ours if told > VERSION else theirs}."

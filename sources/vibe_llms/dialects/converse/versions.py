"""Name and version of the protocol, and their checks."""

from __future__ import annotations

from typing import Final

from vibe_llms.exceptions import ConverseError, RequestError, Stage

PROTOCOL: Final = "converse"
"""The dialect's name."""

VERSION: Final = 1
"""Version in each request, answer and stream. It is raised when an older side would misunderstand
something; that an error is ``{"version": …, "error": …}`` holds in all versions.
"""


def ensure_asked(told: object) -> None:
    """Reject a request of another version, on the serving side.

    Raises:
        RequestError: Names the side to upgrade.
    """
    if told != VERSION:
        raise RequestError(
            path="version",
            detail=f"The request has {_name(told)} of converse; this server supports version "
            f"{VERSION}.",
            remedy=_advise(told, "on the server", "on the client"),
        )


def ensure_answered(told: object, provider: str) -> None:
    """Reject an answer of another version, on the calling side.

    Raises:
        ConverseError: Names the side to upgrade.
    """
    if told != VERSION:
        raise ConverseError(
            detail=f"{provider} sent {_name(told)} of converse; this client supports version "
            f"{VERSION}.",
            remedy=_advise(told, "here", f"on the server of {provider}"),
            stage=Stage.DECODE,
        )


def _name(told: object) -> str:
    return f"version {told}" if isinstance(told, int) else "no version"


def _advise(told: object, ours: str, theirs: str) -> str:
    if not isinstance(told, int):
        return "Check that the URL is that of another vibe-llms gateway."
    return f"Upgrade vibe-llms {ours if told > VERSION else theirs}."

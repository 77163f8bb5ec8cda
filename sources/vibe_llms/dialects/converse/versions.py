"""Name and version of the protocol, and their checks."""

from __future__ import annotations

from typing import Final

from vibe_llms.exceptions import ConverseError, RequestError, Stage

PROTOCOL: Final = "converse"
"""The dialect's name."""

VERSION: Final = 1
"""Version of the protocol in each request, answer and stream.

The version is increased when an older instance would misunderstand a newer one. Errors have the
form ``{"version": …, "error": …}`` in all versions.
"""


def ensure_request_version(version: object) -> None:
    """Reject a request of another version, on the serving side.

    Raises:
        RequestError: Names the side to upgrade.
    """
    if version != VERSION:
        raise RequestError(
            path="version",
            detail=f"The request has {_name(version)} of converse; this server supports version "
            f"{VERSION}.",
            remedy=_advise(version, "on the server", "on the client"),
        )


def ensure_answer_version(version: object, provider: str) -> None:
    """Reject an answer of another version, on the calling side.

    Raises:
        ConverseError: Names the side to upgrade.
    """
    if version != VERSION:
        raise ConverseError(
            detail=f"{provider} sent {_name(version)} of converse; this client supports version "
            f"{VERSION}.",
            remedy=_advise(version, "here", f"on the server of {provider}"),
            stage=Stage.DECODE,
        )


def _name(version: object) -> str:
    return f"version {version}" if isinstance(version, int) else "no version"


def _advise(version: object, ours: str, theirs: str) -> str:
    if not isinstance(version, int):
        return "Check that the URL is that of another vibe-llms gateway."
    return f"Upgrade vibe-llms {ours if version > VERSION else theirs}."

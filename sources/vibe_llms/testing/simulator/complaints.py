"""Refusals of a simulated vendor, before they are written in the vendor's format."""

from __future__ import annotations


class SimulatedRefusal(Exception):
    """A refusal.

    Attributes:
        status: Of HTTP.
        kind: ``invalid``, ``authentication``, ``permission``, ``missing``, ``too_large``,
            ``rate``, ``overloaded``, ``server`` or ``context``.
        message: The vendor's sentence.
        param: The field that it is about.
        code: The vendor's code.
        retry_after: Seconds that the client must wait.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.param = param
        self.code = code
        self.retry_after = retry_after


def require(
    condition: object, message: str, *, param: str | None = None, code: str | None = None
) -> None:
    """Refuse an invalid request with status 400 unless a condition is true."""
    if not condition:
        raise SimulatedRefusal(400, "invalid", message, param=param, code=code)

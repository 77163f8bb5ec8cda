"""Refusals of a simulated vendor, in no vendor's format."""

from __future__ import annotations


class SimulatedRefusal(Exception):
    """Refusal of a request, which the client receives as an error.

    Attributes:
        status: The HTTP status.
        kind: ``invalid``, ``authentication``, ``permission``, ``missing``, ``too_large``,
            ``rate``, ``overloaded``, ``server`` or ``context``.
        message: The vendor's sentence.
        param: The field of the request at fault.
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

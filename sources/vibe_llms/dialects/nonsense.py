"""What a client sends that has no sense in its protocol, as an error of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vibe_llms.exceptions import ConverseError, RequestError


@contextmanager
def refuse_nonsense(what: str, protocol: str, path: str = "") -> Iterator[None]:
    """Makes a RequestError of what goes wrong while something of another form is read.

    Args:
        what: Is read.
        protocol: Whose reference says what it should be.
    """
    try:
        yield
    except ConverseError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise RequestError(
            path=path,
            detail=f"{what} makes no sense: {error!r}.",
            remedy=f"Compare it with the reference of {protocol}.",
        ) from error

"""Conversion of errors of the operating system to errors of this package."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.files import advise

_P = ParamSpec("_P")
_R = TypeVar("_R")


def mapping_errors(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Convert an OSError of a function to a StoreError that names the file (a decorator)."""

    @functools.wraps(function)
    def perform(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except StoreError:  # a subclass of OSError
            raise
        except OSError as error:
            raise produce_store_error(error) from error

    return perform


def produce_store_error(error: OSError) -> StoreError:
    """Create the StoreError for an error of the operating system."""
    path = str(error.filename or "")
    return StoreError(
        path=path,
        detail=f"{path or 'The store'}: {error.strerror or error}.",
        remedy=advise(error),
    )

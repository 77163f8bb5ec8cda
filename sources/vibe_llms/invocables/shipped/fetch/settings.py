"""What a user may set for the ensemble of pages."""

from __future__ import annotations

from typing import Any

import attrs

from vibe_llms.invocables.shipped.settings import (
    EnsembleSettings,
    check_boolean,
    check_count,
    check_seconds,
    check_texts,
    setting,
)


def _check_redirects(value: Any) -> str | None:
    is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 20
    return None if is_number else "a whole number from 0 to 20"


@attrs.frozen(kw_only=True)
class FetchSettings(EnsembleSettings):
    """How pages are fetched.

    Attributes:
        seconds: How long one fetch may take, redirections included.
        page_bytes: How much of a page is read, packed and unpacked; what is beyond is left out.
        redirects: How many redirections are followed.
        ask: Whether somebody is asked before each fetch. What a model asks for is told to
            whoever is asked: with secrets in its conversation, say yes.
        private_hosts: Names and addresses that may be reached although they are not public.

    Raises:
        ConfigurationError: With all the mistakes in them.
    """

    name: str = "fetch"
    seconds: float = setting(30.0, check_seconds)
    page_bytes: int = setting(5_000_000, check_count)
    redirects: int = setting(5, _check_redirects)
    ask: bool = setting(False, check_boolean)
    private_hosts: tuple[str, ...] = setting((), check_texts)

"""User settings of the ensemble ``fetch``."""

from __future__ import annotations

from typing import Annotated

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.invocables.pages.getting import PageBounds
from vibe_llms.tables.annotations import Count, Seconds
from vibe_llms.tables.kinds import bound
from vibe_llms.tables.reading import require


@frozen(kw_only=True)
class FetchSettings:
    """Settings for fetching pages.

    Attributes:
        seconds: Timeout of one fetch, including redirects.
        page_bytes: Maximum size of a page, compressed and decompressed; the rest is left out.
        redirects: Maximum number of redirects.
        ask: Require an approval before each fetch. Set this option if a conversation may contain
            secrets: a model's requests can disclose them to the fetched site.
        private_hosts: Names and addresses that are permitted although they are not public.

    Raises:
        ConfigurationError: The settings are invalid; the message lists all mistakes.
    """

    name: str = "fetch"
    seconds: Seconds = 30.0
    page_bytes: Count = 5_000_000
    redirects: Annotated[int, bound("a whole number from 0 to 20", 0, 20)] = 5
    ask: bool = False
    private_hosts: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        require(self, f"ensembles.{self.name}")

    @property
    def bounds(self) -> PageBounds:
        """The limits for fetching a page."""
        return PageBounds(
            page_bytes=self.page_bytes,
            redirects=self.redirects,
            private_hosts=self.private_hosts,
        )

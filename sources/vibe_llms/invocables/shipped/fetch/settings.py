"""What a user may set for the ensemble of pages."""

from __future__ import annotations

from typing import Annotated

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.invocables.pages.getting import PageBounds
from vibe_llms.tables.annotations import Count, Seconds
from vibe_llms.tables.kinds import bound
from vibe_llms.tables.reading import require


@frozen(kw_only=True)
class FetchSettings:
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
    seconds: Seconds = 30.0
    page_bytes: Count = 5_000_000
    redirects: Annotated[int, bound("a whole number from 0 to 20", 0, 20)] = 5
    ask: bool = False
    private_hosts: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        require(self, f"ensembles.{self.name}")

    @property
    def bounds(self) -> PageBounds:
        """The same for whoever gets a page."""
        return PageBounds(
            page_bytes=self.page_bytes,
            redirects=self.redirects,
            private_hosts=self.private_hosts,
        )

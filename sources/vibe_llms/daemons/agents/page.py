"""Web page for runs and conversations.

Diagrams are drawn in a separate frame, because the drawing library makes markup from text: the
frame has no access to the page, and only reports which node was selected.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import Final

from vibe_llms.daemons.page_files import HTML, PAGE_HEADERS, PageFile, produce_page_routes
from vibe_llms.daemons.routes import Route

_INDEX: Final = "index.html"
_FRAME: Final = "diagram.html"


@functools.cache
def compose_frame_file() -> PageFile:
    """Compose the frame that draws diagrams; on demand, since it is large and few users need it."""
    from vibe_llms.flows.pages import compose_frame

    text, policy = compose_frame()
    headers = {**PAGE_HEADERS, "content-security-policy": policy}
    return PageFile(media_type=HTML, data=text.encode(), headers=headers)


def produce_routes(hosts: Collection[str] | None) -> list[Route]:
    """Produce the routes of the page.

    Args:
        hosts: Host names of the daemon; ``None`` for any.
    """
    return produce_page_routes(
        hosts,
        index=_INDEX,
        summary="Show runs in a browser.",
        further={_FRAME: compose_frame_file},
    )

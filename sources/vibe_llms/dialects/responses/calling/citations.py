"""Annotations of a text as citations, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vibe_llms.dialects.decoding import read_text
from vibe_llms.dialects.extras import make_native
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.responses.quirks import PROTOCOL
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import Citation


def read_citation(annotation: Mapping[str, Any]) -> Citation:
    """Return the citation of an annotation, which is kept as native data."""
    start, end = annotation.get("start_index"), annotation.get("end_index")
    return Citation(
        start=start if isinstance(start, int) else None,
        end=end if isinstance(end, int) else None,
        title=read_text(annotation.get("title")) or read_text(annotation.get("filename")),
        url=read_text(annotation.get("url")),
        file_id=read_text(annotation.get("file_id")),
        native=make_native(PROTOCOL, annotation),
    )


def write_citations(
    citations: Sequence[Citation], path: str, ledger: Ledger, canister: AnyCanister | None
) -> list[dict[str, Any]]:
    """Return the annotations; citations of kinds unknown to the vendor are withheld."""
    written = (
        _write_citation(citation, f"{path}.citations[{index}]", ledger, canister)
        for index, citation in enumerate(citations)
    )
    return [annotation for annotation in written if annotation is not None]


def _write_citation(
    citation: Citation, path: str, ledger: Ledger, canister: AnyCanister | None
) -> dict[str, Any] | None:
    native = citation.native
    if ledger.admits(native, canister):
        return ledger.read_sendable(native, path, canister)
    if citation.url is None or citation.start is None or citation.end is None:
        ledger.withhold(path, "this vendor accepts only citations of web pages with a span")
        return None
    if native is not None or citation.cited_text is not None or citation.file_id is not None:
        ledger.coerce(path, "only the page and the span of the citation are sent")
    return {
        "type": "url_citation",
        "url": citation.url,
        "title": citation.title or "",
        "start_index": citation.start,
        "end_index": citation.end,
    }

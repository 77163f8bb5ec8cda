"""Citations: what a text of the model rests on.

Offsets of this dialect are into the cited document, not into the text; they stay in the vendor's
own words beside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from vibe_llms.dialects.decoding import read_text
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.messages.quirks import PROTOCOL
from vibe_llms.dialects.residues import seal_native
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import Citation


def normalize_citation(native: Mapping[str, Any]) -> Citation:
    """Returns a citation of any kind; the source of a search result counts if it is an address."""
    source = read_text(native.get("source")) or ""
    return Citation(
        cited_text=read_text(native.get("cited_text")),
        title=read_text(native.get("title")) or read_text(native.get("document_title")),
        url=read_text(native.get("url")) or (source if "://" in source else None),
        file_id=read_text(native.get("file_id")),
        native=seal_native(PROTOCOL, native),
    )


def nativize_citations(
    citations: Iterable[Citation], path: str, canister: AnyCanister | None, ledger: Ledger
) -> list[dict[str, Any]]:
    """Returns those citations that the vendor made itself; it takes no others."""
    native = []
    for index, citation in enumerate(citations):
        place = f"{path}.citations[{index}]"
        if citation.native is None or citation.native.protocol != PROTOCOL:
            ledger.withhold(place, "the vendor takes no citations but its own")
        elif fields := ledger.open(citation.native, place, canister):
            native.append(fields)
    return native

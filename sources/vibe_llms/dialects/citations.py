"""Citations in protocols whose vendors accept only their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vibe_llms.dialects.ledger import Ledger
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import Citation


def nativize_citations(
    citations: Iterable[Citation], path: str, canister: AnyCanister | None, ledger: Ledger
) -> list[dict[str, Any]]:
    """Return the citations of the ledger's protocol; withhold those of other vendors."""
    native = []
    for index, citation in enumerate(citations):
        citation_path = f"{path}.citations[{index}]"
        if citation.native is None or citation.native.protocol != ledger.protocol:
            ledger.withhold(citation_path, "the vendor accepts only its own citations")
            continue
        fields = ledger.read_sendable(citation.native, citation_path, canister)
        if fields:
            native.append(fields)
    return native

"""Grounding metadata of a candidate, as citations of its texts.

Offsets in the metadata count the bytes of the text in UTF-8; ours count characters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from vibe_llms.dialects.decoding import read_text
from vibe_llms.dialects.extras import make_native
from vibe_llms.dialects.generate_content.fields import open_object
from vibe_llms.dialects.generate_content.quirks import PROTOCOL
from vibe_llms.messages.contents import Citation

_KINDS: Final = ("web", "retrievedContext", "maps", "image")
_RETRIEVED: Final = "URL_RETRIEVAL_STATUS_SUCCESS"


def find_citations(
    candidate: Mapping[str, Any], texts: Sequence[str]
) -> Iterator[tuple[int, Citation]]:
    """Yield citations and the indices of their texts.

    Args:
        candidate: With its metadata, keys in camel case.
        texts: Texts of the candidate without thoughts, which the offsets refer to.
    """
    if not texts:
        return
    metadata = open_object(candidate.get("groundingMetadata") or {})
    chunks = [open_object(chunk) for chunk in metadata.get("groundingChunks") or ()]
    for native_support in metadata.get("groundingSupports") or ():
        support = open_object(native_support)
        segment = open_object(support.get("segment") or {})
        position, start, end = _locate(segment, texts)
        for index in support.get("groundingChunkIndices") or ():
            if 0 <= index < len(chunks):
                yield position, _read_chunk(chunks[index], support, start, end)
    citation_metadata = open_object(candidate.get("citationMetadata") or {})
    for native_source in (
        citation_metadata.get("citations") or citation_metadata.get("citationSources") or ()
    ):
        source = open_object(native_source)
        position, start, end = _locate(source, texts)
        yield (
            position,
            Citation(
                start=start,
                end=end,
                title=read_text(source.get("title")),
                url=read_text(source.get("uri")),
                native=make_native(PROTOCOL, {"citation": source}),
            ),
        )
    url_metadata = open_object(candidate.get("urlContextMetadata") or {})
    for native_page in url_metadata.get("urlMetadata") or ():
        page = open_object(native_page)
        if page.get("urlRetrievalStatus", _RETRIEVED) == _RETRIEVED and page.get("retrievedUrl"):
            native = make_native(PROTOCOL, {"urlMetadata": page})
            # It is unknown which text cites the page.
            yield len(texts) - 1, Citation(url=page["retrievedUrl"], native=native)


def _read_chunk(
    chunk: Mapping[str, Any], support: Mapping[str, Any], start: int | None, end: int | None
) -> Citation:
    kind = next((kind for kind in _KINDS if kind in chunk), "")
    source = open_object(chunk.get(kind) or {})
    return Citation(
        start=start,
        end=end,
        cited_text=read_text(source.get("text")),
        title=read_text(source.get("title")),
        url=read_text(source.get("uri")) or read_text(source.get("sourceUri")),
        file_id=read_text(source.get("documentName")),
        native=make_native(PROTOCOL, {"groundingChunk": chunk, "groundingSupport": support}),
    )


def _locate(segment: Mapping[str, Any], texts: Sequence[str]) -> tuple[int, int | None, int | None]:
    """Return the text that a segment is in, and its span in characters.

    If the offsets do not fit, the text in the segment decides: in a stream the offsets count over
    many parts.
    """
    segment_text = segment.get("text")
    begin, end = segment.get("startIndex") or 0, segment.get("endIndex")
    # The text that the segment names comes first, then all other texts in their order.
    part_index = segment.get("partIndex", 0)
    order = sorted(range(len(texts)), key=lambda index: index != part_index)
    if end is not None:
        for index in order:
            data = texts[index].encode("utf-8", "surrogatepass")
            piece = data[begin:end]
            if end <= len(data) and (segment_text is None or piece == segment_text.encode("utf-8")):
                start = _count_characters(data[:begin])
                return index, start, start + _count_characters(piece)
    for index in order:
        if segment_text and segment_text in texts[index]:
            start = texts[index].index(segment_text)
            return index, start, start + len(segment_text)
    return 0, None, None


def _count_characters(data: bytes) -> int:
    """Count the characters that begin in a piece of UTF-8."""
    return sum(1 for byte in data if byte & 0xC0 != 0x80)

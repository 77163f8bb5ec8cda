"""Quirks of services whose calls have the common formats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.tables.annotations import Count, String


@frozen(kw_only=True)
class EmbeddingQuirks:
    """Differences between services with OpenAI's format for embeddings.

    Attributes:
        dimensions_field: Field of the length of the vectors; empty if it cannot be chosen.
        purpose_field: Field of the purpose; empty if there is none.
        purposes: The service's word for each purpose that it knows.
        format_field: Field that requests base64, which has a third of the size of decimal numbers;
            empty if the service only sends numbers.
        most_texts: Maximum texts of one request.
        truncation_field: Field that turns the silent truncation of long texts off; empty if the
            service always rejects them.
    """

    dimensions_field: String = "dimensions"
    purpose_field: String = ""
    purposes: Mapping[str, str] = attrs.field(factory=dict)
    format_field: String = "encoding_format"
    most_texts: Count = 2048
    truncation_field: String = ""


@frozen(kw_only=True)
class RankingQuirks:
    """Differences between services with the common format for rankings.

    Attributes:
        path: The path after the base URL.
        most_field: Field with the maximum number of texts to return.
        most_texts: Maximum texts of one request.
    """

    path: str = "/rerank"
    most_field: str = "top_n"
    most_texts: Count = 1000


@frozen(kw_only=True)
class IllustrationQuirks:
    """Differences between services with images in OpenAI's form.

    Attributes:
        path: The path after the base URL.
        most_images: Maximum images of one answer.
        size_form: ``size`` for a text such as ``1024x1024``, ``pixels`` for the fields ``width``
            and ``height``, ``ratio`` for the field ``aspect_ratio``.
        quality_field: Field of the quality; empty if there is none.
        background_field: Field of the background; empty if there is none.
        format_field: Field of the file format; empty if there is none.
        base64_word: Value of ``response_format`` that requests the bytes of an image; empty if the
            service has no such field.
        edits: ``form`` for edits of uploaded files, ``json`` for edits of images in a JSON body,
            ``none`` if it cannot edit.
        edits_path: The path of edits.
    """

    path: String = "/images/generations"
    most_images: Count = 10
    size_form: Literal["size", "pixels", "ratio"] = "size"
    quality_field: String = "quality"
    background_field: String = "background"
    format_field: String = "output_format"
    base64_word: String = ""
    edits: Literal["form", "json", "none"] = "form"
    edits_path: String = "/images/edits"


@frozen(kw_only=True)
class CallQuirks:
    """The quirks of a service's calls, by genus.

    Attributes:
        embeddings: Quirks of its embeddings; ``None`` if it has no embeddings.
        rankings: Quirks of its rankings; ``None`` if it has no rankings.
        moderates: Whether it has moderation in OpenAI's format.
        illustrations: Quirks of its images; ``None`` if it has no images.
    """

    embeddings: EmbeddingQuirks | None = None
    rankings: RankingQuirks | None = None
    moderates: bool = False
    illustrations: IllustrationQuirks | None = None

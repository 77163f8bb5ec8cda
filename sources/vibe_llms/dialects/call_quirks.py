"""Quirks of services whose calls have the common formats."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.tables.annotations import Count, String, Strings


@frozen(kw_only=True)
class EmbeddingQuirks:
    """Differences between services with OpenAI's format for embeddings.

    Attributes:
        path: The path after the base URL.
        dimensions_field: Field of the length of the vectors; empty if it cannot be chosen.
        purpose_field: Field of the purpose; empty if there is none.
        purposes: The service's word for each purpose that it knows.
        format_field: Field that requests base64, which has a third of the size of decimal numbers;
            empty if the service only sends numbers.
        max_texts: Maximum texts of one request.
        truncation_field: Field that turns the silent truncation of long texts off; empty if the
            service always rejects them.
    """

    path: String = "/embeddings"
    dimensions_field: String = "dimensions"
    purpose_field: String = ""
    purposes: Mapping[str, str] = attrs.field(factory=dict)
    format_field: String = "encoding_format"
    max_texts: Count = 2048
    truncation_field: String = ""


@frozen(kw_only=True)
class RankingQuirks:
    """Differences between services with the common format for rankings.

    Attributes:
        path: The path after the base URL.
        texts_field: Field of the texts.
        max_results_field: Field with the maximum number of texts to return; empty if the service
            returns all.
        max_texts: Maximum texts of one request.
    """

    path: String = "/rerank"
    texts_field: String = "documents"
    max_results_field: String = "top_n"
    max_texts: Count = 1000


@frozen(kw_only=True)
class IllustrationQuirks:
    """Differences between services with images in OpenAI's form.

    Attributes:
        path: The path after the base URL.
        max_images: Maximum images of one answer.
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
    max_images: Count = 10
    size_form: Literal["size", "pixels", "ratio"] = "size"
    quality_field: String = "quality"
    background_field: String = "background"
    format_field: String = "output_format"
    base64_word: String = ""
    edits: Literal["form", "json", "none"] = "form"
    edits_path: String = "/images/edits"


_FORMATS: Final = MappingProxyType(
    {name: name for name in ("mp3", "wav", "opus", "flac", "aac", "pcm")}
)


@frozen(kw_only=True)
class SpeechQuirks:
    """Differences between services with speech in OpenAI's form.

    Attributes:
        path: The path after the base URL.
        default_voice: The voice if the request names none; empty if it must.
        formats: The service's word for each format; the default format is first.
        speed_field: Field of the speed; empty if there is none.
        instructions_field: Field of the instructions; empty if there is none.
        language_field: Field of the language; empty if there is none.
    """

    path: String = "/audio/speech"
    default_voice: String = "alloy"
    formats: Mapping[str, str] = _FORMATS
    speed_field: String = "speed"
    instructions_field: String = "instructions"
    language_field: String = ""


@frozen(kw_only=True)
class TranscriptionQuirks:
    """Differences between services with transcription in OpenAI's form.

    Attributes:
        path: The path after the base URL.
        translations_path: The path that translates into English.
        translates: Whether it translates.
        prompt_field: Field of the prompt; empty if there is none.
        format_field: Field of the answer's form; empty if the times of segments need none.
        streams: Whether an answer can be a stream.
        live: Whose WebSocket takes audio that is still being recorded: ``openai`` or ``mistral``;
            empty if the service takes only complete audio.
    """

    path: String = "/audio/transcriptions"
    translations_path: String = "/audio/translations"
    translates: bool = True
    prompt_field: String = "prompt"
    format_field: String = "response_format"
    streams: bool = True
    live: String = ""


@frozen(kw_only=True)
class CompletionQuirks:
    """Differences between services with OpenAI's older call for prompts.

    Attributes:
        path: The path after the base URL; empty if the service has only ``fim_path``.
        models: Beginnings of the names of models that have the call; empty for all models.
        lacks: Fields that the service ignores or refuses.
        takes_lists: Whether a request may have several prompts, or tokens.
        fim_path: The path of Mistral's call for the text between a prompt and a suffix; empty if
            the service has none.
    """

    path: String = "/completions"
    models: Strings = ()
    lacks: Strings = ()
    takes_lists: bool = True
    fim_path: String = ""


@frozen(kw_only=True)
class CallQuirks:
    """The quirks of a service's calls, by genus.

    Attributes:
        embeddings: Quirks of its embeddings; ``None`` if it has no embeddings.
        rankings: Quirks of its rankings; ``None`` if it has no rankings.
        moderates: Whether it has moderation in OpenAI's format.
        illustrations: Quirks of its images; ``None`` if it has no images.
        speeches: Quirks of its speech; ``None`` if it has no speech.
        transcriptions: Quirks of its transcription; ``None`` if it has no transcription.
        completions: Quirks of its completions of prompts; ``None`` if it has none.
    """

    embeddings: EmbeddingQuirks | None = None
    rankings: RankingQuirks | None = None
    moderates: bool = False
    illustrations: IllustrationQuirks | None = None
    speeches: SpeechQuirks | None = None
    transcriptions: TranscriptionQuirks | None = None
    completions: CompletionQuirks | None = None

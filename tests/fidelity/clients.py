"""The fields of calls that a gateway's clients send, in each format that it serves.

Each field is set alone: it reaches the request, changes how the answer is written, or a loss names
it. A field that is refused is an error for the client, which loses nothing silently.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from fidelity.calls import PICTURE, Vendor
from fidelity.matrix import Verdict
from vibe_llms.dialects import moderations, rankings
from vibe_llms.dialects.calls import ClientFormat
from vibe_llms.dialects.embeddings import cohere, google, ollama
from vibe_llms.dialects.embeddings import openai as embeddings
from vibe_llms.dialects.illustrations import openai_clients as images
from vibe_llms.dialects.speeches import openai as speeches
from vibe_llms.dialects.transcripts import openai_clients as transcripts
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.forms import FormFile
from vibe_llms.messages.canisters import Origin
from vibe_llms.messages.contents import AudioContent
from vibe_llms.messages.illustrations import Illustration
from vibe_llms.messages.losses import Loss, LossGrade
from vibe_llms.messages.moderations import Moderation, ModerationVerdict
from vibe_llms.messages.rankings import RankedText, Ranking
from vibe_llms.messages.speeches import Speech
from vibe_llms.messages.transcripts import Transcript, TranscriptPart
from vibe_llms.messages.vectors import Vectors
from vibe_llms.models.genera import Genus

_TEXTS: Final = ["red house", "blue sky"]
_ORIGIN: Final = Origin(provider="vendor", model="model", response_id="id")
_SOUND: Final = FormFile(name="sound.mp3", media_type="audio/mpeg", data=b"ID3 sound")
_IMAGE: Final = FormFile(name="picture.png", media_type="image/png", data=PICTURE.data)


@attrs.frozen(kw_only=True)
class Face:
    """A format of a gateway's clients.

    Attributes:
        title: Path for the reader.
        format: The format.
        body: A client's body with the fields that it must have.
        fields: The other fields that its official libraries send, each with a value.
    """

    title: str
    format: ClientFormat[Any, Any]
    body: Mapping[str, Any]
    fields: Mapping[str, Any]


_IMAGE_FIELDS: Final[Mapping[str, Any]] = {
    "background": "transparent",
    "complexity": "high",
    "frame_count": 2,
    "frame_duration_ms": 100,
    "n": 2,
    "output_compression": 80,
    "output_format": "webp",
    "partial_images": 2,
    "quality": "high",
    "response_format": "url",
    "safety_identifier": "person",
    "size": "1536x1024",
    "stream": True,
    "svg": True,
    "user": "person",
}

_FORM_FIELDS: Final = {
    name: value if isinstance(value, str) or name == "n" else json.dumps(value)
    for name, value in _IMAGE_FIELDS.items()
}
"""The same in a form, where every field is a text; the gateway reads ``n`` as a number."""

FACES: Final[Mapping[Genus, Sequence[Face]]] = {
    Genus.EMBEDDER: (
        Face(
            title="/v1/embeddings",
            format=embeddings.CLIENT_FORMAT,
            body={"model": "m", "input": _TEXTS},
            fields={
                "dimensions": 64,
                "encoding_format": "base64",
                "metadata": {"purpose": "test"},  # this and the next two: Mistral
                "output_dimension": 64,
                "output_dtype": "int8",
                "user": "person",
            },
        ),
        Face(
            title="/v2/embed",
            format=cohere.CLIENT_FORMAT,
            body={"model": "m", "texts": _TEXTS},
            fields={
                "embedding_types": ["base64"],
                "images": ["data:image/png;base64,AA=="],
                "input_type": "search_query",
                "inputs": [{"content": [{"type": "text", "text": "another"}]}],
                "max_tokens": 9,
                "output_dimension": 64,
                "priority": 1,
                "truncate": "START",
            },
        ),
        Face(
            title="batchEmbedContents",
            format=google.BATCH_FORMAT,
            body={"requests": [{"content": {"parts": [{"text": "red house"}]}}]},
            fields={},
        ),
        Face(
            title="embedContent",
            format=google.CLIENT_FORMAT,
            body={"content": {"parts": [{"text": "red house"}]}},
            fields={
                "outputDimensionality": 64,
                "taskType": "RETRIEVAL_QUERY",
                "title": "Houses",
            },
        ),
        Face(
            title="/api/embed",
            format=ollama.CLIENT_FORMAT,
            body={"model": "m", "input": _TEXTS},
            fields={
                "dimensions": 64,
                "keep_alive": "5m",
                "options": {"num_ctx": 4096},
                "truncate": True,
            },
        ),
    ),
    Genus.ILLUSTRATOR: (
        Face(
            title="/v1/images/generations",
            format=images.CLIENT_FORMAT,
            body={"model": "m", "prompt": "A house"},
            fields={**_IMAGE_FIELDS, "moderation": "low", "style": "vivid"},
        ),
        Face(
            title="/v1/images/edits",
            format=images.EDIT_FORMAT,
            body={"model": "m", "prompt": "A house", "image": _IMAGE},
            fields={**_FORM_FIELDS, "input_fidelity": "high", "markup": "on", "mask": _IMAGE},
        ),
    ),
    Genus.MODERATOR: (
        Face(
            title="/v1/moderations",
            format=moderations.CLIENT_FORMAT,
            body={"model": "m", "input": _TEXTS},
            fields={},
        ),
    ),
    Genus.RANKER: (
        Face(
            title="/v2/rerank",
            format=rankings.CLIENT_FORMAT,
            body={"model": "m", "query": "red", "documents": _TEXTS},
            fields={
                "max_chunks_per_doc": 3,
                "max_tokens_per_doc": 9,
                "priority": 1,
                "rank_fields": ["text"],
                "relevant_spans": True,
                "return_documents": True,
                "top_n": 1,
            },
        ),
    ),
    Genus.SPEAKER: (
        Face(
            title="/v1/audio/speech",
            format=speeches.CLIENT_FORMAT,
            body={"model": "m", "input": "The bridge is closed.", "voice": "somebody"},
            fields={
                "instructions": "Whisper.",
                "response_format": "wav",
                "speed": 1.1,
                "stream_format": "sse",
            },
        ),
    ),
    Genus.TRANSCRIBER: (
        Face(
            title="/v1/audio/transcriptions",
            format=transcripts.CLIENT_FORMAT,
            body={"model": "m", "file": _SOUND},
            fields={
                "chunking_strategy": "auto",
                "include": ["logprobs"],
                "keywords": ["ferry"],
                "known_speaker_names": ["Ann"],
                "known_speaker_references": ["data:audio/wav;base64,AA=="],
                "language": "de",
                "languages": ["de", "en"],
                "prompt": "A ferry.",
                "response_format": "srt",
                "stream": "true",
                "temperature": "0.5",
                "timestamp_granularities": ["word"],
            },
        ),
        Face(
            title="/v1/audio/translations",
            format=transcripts.TRANSLATION_FORMAT,
            body={"model": "m", "file": _SOUND},
            fields={"prompt": "A ferry.", "response_format": "srt", "temperature": "0.5"},
        ),
    ),
}
"""The formats of clients of each genus."""

_PART: Final = TranscriptPart(start=0.0, end=1.0, text="The bridge.")
RESULTS: Final[Mapping[Genus, Any]] = {
    Genus.EMBEDDER: Vectors(
        data=array("f", (0.6, 0.8, 1.0, 0.0)).tobytes(), width=2, origin=_ORIGIN
    ),
    Genus.ILLUSTRATOR: Illustration(images=(PICTURE,), origin=_ORIGIN),
    Genus.MODERATOR: Moderation(
        verdicts=(ModerationVerdict(categories=(), scores={}),) * 2, origin=_ORIGIN
    ),
    Genus.RANKER: Ranking(
        ranked=(RankedText(index=0, score=0.9, text="red house"),), origin=_ORIGIN
    ),
    Genus.SPEAKER: Speech(audio=AudioContent(data=b"ID3", mime_type="audio/mpeg"), origin=_ORIGIN),
    Genus.TRANSCRIBER: Transcript(
        text="The bridge.", segments=(_PART,), words=(_PART,), origin=_ORIGIN
    ),
}
"""A result of each genus, to be written for clients."""


def judge_client_field(genus: Genus, face: Face, name: str) -> Verdict:
    """Return what becomes of a field of a client's request.

    Raises:
        AssertionError: The field changes neither the request nor the answer, and no loss names it.
    """
    body = {**face.body, name: face.fields[name]}
    try:
        translation = face.format.read(body)
    except RequestError as error:
        return Verdict("refused", (str(error).rstrip("."),))
    losses = [loss for loss in translation.losses if loss.path == name]
    if losses:
        return Verdict(str(losses[0].kind), tuple(loss.reason for loss in losses))
    if translation.value != face.format.read(face.body).value:
        return Verdict("kept")
    assert _write(genus, face, body) != _write(genus, face, face.body), (
        f"{face.title} loses {name} silently."
    )
    return Verdict("in the answer")


def _write(genus: Genus, face: Face, body: Mapping[str, Any]) -> Any:
    """Return an answer for a client: complete, and the type of its stream."""
    produce = face.format.produce_writer
    writer = None if produce is None else produce(body)
    answer = face.format.write(RESULTS[genus], body, "m")
    if isinstance(answer, dict):
        answer = {key: value for key, value in answer.items() if key not in ("created", "id")}
    return answer, None if writer is None else writer.content_type


def judge_face(genus: Genus, face: Face, vendor: Vendor) -> Verdict:
    """Return what becomes of a client's request at a vendor, with all fields of its format.

    Fields that are refused are left out.
    """
    found = vendor.find_format(genus)
    assert found is not None
    call_format, descriptor = found
    if face.format.protocol and face.format.protocol == call_format.protocol:
        return Verdict("unchanged")
    fields = {
        name: value
        for name, value in face.fields.items()
        if judge_client_field(genus, face, name).word != "refused"
    }
    read = face.format.read({**face.body, **fields})
    try:
        written = call_format.write(read.value, descriptor)
    except RequestError as error:
        return Verdict("refused", (str(error).rstrip("."),))
    losses = [loss for loss in (*read.losses, *written.losses) if _counts(loss)]
    if not losses:
        return Verdict("kept")
    return Verdict(
        "in part", tuple(dict.fromkeys(f"{loss.path}: {loss.reason}" for loss in losses))
    )


def _counts(loss: Loss) -> bool:
    return loss.grade is not LossGrade.ROUTINE


def survey_faces() -> Iterator[tuple[Genus, Face]]:
    """Yield each format, with its genus."""
    for genus, faces in FACES.items():
        for face in faces:
            yield genus, face

"""The features of calls outside of conversations, at each vendor and from each client of a gateway.

Each field of a request is set alone, and the vendor's call is compared with the call without it: a
field is in the call, or a loss names it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from fidelity.matrix import Verdict
from support.vendors.remoting import produce_context
from vibe_llms.dialects.calls import CallFormat, NativeCall
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.forms import EncodedBody, decode_form, is_form
from vibe_llms.messages.contents import AudioContent, ImageContent
from vibe_llms.messages.illustrations import IllustrationRequest
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.messages.moderations import ModerationRequest
from vibe_llms.messages.rankings import RankingRequest
from vibe_llms.messages.speeches import SpeechRequest
from vibe_llms.messages.transcripts import TranscriptionRequest
from vibe_llms.messages.vectors import EmbeddingRequest
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.models.genera import Genus
from vibe_llms.providers.openai_compatible.kinds import read_services
from vibe_llms.testing.simulator.behaviour import produce_png

PICTURE: Final = ImageContent(data=produce_png(5, 4))
SOUND: Final = AudioContent(data=b"ID3 sound", mime_type="audio/mpeg")

PLAIN: Final[Mapping[Genus, Any]] = {
    Genus.EMBEDDER: EmbeddingRequest(texts=("red house", "blue sky")),
    Genus.ILLUSTRATOR: IllustrationRequest(prompt="A house"),
    Genus.MODERATOR: ModerationRequest(texts=("hello", "bye")),
    Genus.RANKER: RankingRequest(query="red", texts=("red house", "blue sky")),
    Genus.SPEAKER: SpeechRequest(text="The bridge is closed.", voice="somebody"),
    Genus.TRANSCRIBER: TranscriptionRequest(audio=SOUND),
}
"""A request of each genus with the fields alone that every vendor needs."""

FIELDS: Final[Mapping[Genus, Mapping[str, Mapping[str, Any]]]] = {
    Genus.EMBEDDER: {
        "dimensions": {"dimensions": 64},
        **{f"purpose {name}": {"purpose": name} for name in ("query", "passage", "similarity")},
    },
    Genus.ILLUSTRATOR: {
        "images": {"images": (PICTURE,)},
        "mask": {"images": (PICTURE,), "mask": PICTURE},
        "count": {"count": 2},
        "size": {"size": "1536x1024"},
        "quality": {"quality": "high"},
        "background": {"background": "transparent"},
        "file_format": {"file_format": "webp"},
        "options": {"options": {"seed": 7}},
    },
    Genus.MODERATOR: {},
    Genus.RANKER: {"max_results": {"max_results": 1}},
    Genus.SPEAKER: {
        "voice": {"voice": "another"},
        **{f"file_format {name}": {"file_format": name} for name in ("mp3", "wav", "opus", "pcm")},
        "speed": {"speed": 1.1},
        "instructions": {"instructions": "Whisper."},
        "language": {"language": "de"},
        "options": {"options": {"seed": 7}},
    },
    Genus.TRANSCRIBER: {
        "language": {"language": "de"},
        "prompt": {"prompt": "A ferry."},
        "translates": {"translates": True},
        "timestamps segment": {"timestamps": "segment"},
        "timestamps word": {"timestamps": "word"},
        "temperature": {"temperature": 0.5},
        "options": {"options": {"seed": 7}},
    },
}
"""Optional fields of the requests of each genus, by the title of the field."""


@attrs.frozen
class Vendor:
    """A vendor's model of a genus.

    Attributes:
        title: Name for the reader.
        folder: Folder of its plugin.
        name: Name of the provider.
        model: Name of the model.
        settings: Further settings of the provider.
    """

    title: str
    folder: str
    name: str
    model: str
    settings: Mapping[str, Any] = attrs.field(factory=dict)

    def find_format(self, genus: Genus) -> tuple[CallFormat[Any, Any], ModelDescriptor] | None:
        """Return the format of the vendor's calls; ``None`` if it has no such models."""
        client = _produce_client(self.folder, self.name, tuple(self.settings.items()))
        descriptor = client.describe(self.model)
        found = client.vendor.find_call_format(genus, descriptor)
        return None if found is None else (found, descriptor)

    async def call(self, url: str, genus: Genus, request: Any) -> Any:
        """Make a call at a server."""
        client = _produce_client(self.folder, self.name, (("base_url", url),))
        try:
            model = await client.access(self.model, genus)
            return await model.call(request)
        finally:
            await client.close()


def _produce_client(folder: str, name: str, settings: tuple[tuple[str, Any], ...]) -> Any:
    module = importlib.import_module(f"vibe_llms.providers.{folder}")
    specification = next(
        each for each in module.survey_providers() if each.name in (name, "*") or folder == name
    )
    context = produce_context(name, Path("unused"), **{"api_key": "key", **dict(settings)})
    return specification.factory(context).produce_client()


_VERTEX: Final = {"project": "project", "location": "europe-west4", "cloud": "vertex"}
_REGION: Final = {"region": "eu-central-1"}
_MODELS: Final[Mapping[Genus, Sequence[Vendor]]] = {
    Genus.EMBEDDER: (
        Vendor("OpenAI", "openai_responses", "openai_responses", "text-embedding-3-small"),
        Vendor("Google", "google", "google", "gemini-embedding-001"),
        Vendor("Vertex AI", "google", "google", "gemini-embedding-001", _VERTEX),
        Vendor("Ollama", "ollama", "ollama", "nomic-embed-text"),
        Vendor("Cohere", "cohere", "cohere", "embed-v4.0"),
        Vendor("Bedrock: Titan 2", "bedrock", "bedrock", "amazon.titan-embed-text-v2:0", _REGION),
        Vendor("Bedrock: Cohere 4", "bedrock", "bedrock", "cohere.embed-v4:0", _REGION),
        Vendor("Bedrock: Cohere 3", "bedrock", "bedrock", "cohere.embed-english-v3", _REGION),
        Vendor("vLLM", "vllm", "vllm", "any"),
    ),
    Genus.ILLUSTRATOR: (
        Vendor("OpenAI", "openai_responses", "openai_responses", "gpt-image-2"),
        Vendor("Google", "google", "google", "gemini-2.5-flash-image"),
    ),
    Genus.MODERATOR: (
        Vendor("OpenAI", "openai_responses", "openai_responses", "omni-moderation-latest"),
    ),
    Genus.RANKER: (
        Vendor("Cohere", "cohere", "cohere", "rerank-v3.5"),
        Vendor("vLLM", "vllm", "vllm", "any"),
    ),
    Genus.SPEAKER: (
        Vendor("OpenAI", "openai_responses", "openai_responses", "gpt-4o-mini-tts"),
        Vendor("Google", "google", "google", "gemini-2.5-flash-preview-tts"),
        Vendor("ElevenLabs", "elevenlabs", "elevenlabs", "eleven_multilingual_v2"),
        Vendor("Deepgram", "deepgram", "deepgram", "aura-2"),
    ),
    Genus.TRANSCRIBER: (
        Vendor("gpt-4o-transcribe", "openai_responses", "openai_responses", "gpt-4o-transcribe"),
        Vendor("whisper-1", "openai_responses", "openai_responses", "whisper-1"),
        Vendor("ElevenLabs", "elevenlabs", "elevenlabs", "scribe_v1"),
        Vendor("Deepgram", "deepgram", "deepgram", "nova-3"),
    ),
}


def survey_vendors(genus: Genus) -> Iterator[Vendor]:
    """Yield the vendors with models of a genus, services of the common formats last."""
    yield from _MODELS[genus]
    for name in sorted(read_services()):
        vendor = Vendor(name, "openai_compatible", name, "any")
        if vendor.find_format(genus) is not None:
            yield vendor


READ_FROM_ANSWER: Final = {
    ("Google", "file_format pcm"): "file_format wav",
    ("Google", "file_format wav"): "file_format pcm",
    ("Deepgram", "timestamps word"): "",
    ("tei", "max_results"): "",
}
"""Fields that change how an answer is read, and not the call; a test compares the results.

Each with another field, or none, for which the same answer is read otherwise.
"""


def judge_field(genus: Genus, title: str, vendor: Vendor) -> Verdict:
    """Return what becomes of a field at a vendor.

    Raises:
        AssertionError: The field is neither in the vendor's call nor in the losses.
    """
    found = vendor.find_format(genus)
    assert found is not None
    call_format, descriptor = found
    name = list(FIELDS[genus][title])[-1]
    request = compose_request(genus, title)
    if name == "count" and request.count > call_format.max_inputs:
        return Verdict("kept", ("one request for each image",))
    try:
        translation = call_format.write(request, descriptor)
    except RequestError as error:
        return Verdict("refused", (str(error).rstrip("."),))
    losses = [loss for loss in translation.losses if _is_of(name, loss)]
    if losses:
        kinds = [loss.kind for loss in losses]
        word = "dropped" if LossKind.DROPPED in kinds else str(kinds[0])
        return Verdict(word, tuple(dict.fromkeys(loss.reason for loss in losses)))
    if (vendor.title, title) not in READ_FROM_ANSWER:
        sent = _simplify(translation.value)
        others = [
            _simplify(call_format.write(other, descriptor).value)
            for other in _survey_others(genus, title)
        ]
        assert any(sent != other for other in others), f"{vendor.title} loses {title} silently."
    return Verdict("kept")


def compose_request(genus: Genus, title: str) -> Any:
    """Return a request with one of the fields; without any if the title is empty."""
    return attrs.evolve(PLAIN[genus], **FIELDS[genus].get(title, {}))


def _survey_others(genus: Genus, title: str) -> Iterator[Any]:
    """Yield the request without a field, and with its other values: one may be the default."""
    *before, name = FIELDS[genus][title]
    values = FIELDS[genus][title]
    yield attrs.evolve(PLAIN[genus], **{each: values[each] for each in before})
    for other, changes in FIELDS[genus].items():
        if other != title and name in changes and not before:
            yield compose_request(genus, other)


def _is_of(name: str, loss: Loss) -> bool:
    return loss.path == name or loss.path.startswith((f"{name}.", f"{name}["))


def _simplify(native: Any) -> Any:
    """Return a call with a form as the list of its fields, whose boundary is random."""
    if not isinstance(native, NativeCall):
        return native
    body: Any = native.body
    if isinstance(body, EncodedBody) and is_form(body.content_type):
        body = decode_form(body.data, body.content_type)
    return native.path, body

"""Calls that draw, speak and transcribe, in OpenAI's protocol."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import attrs
from msgspec.structs import replace

from vibe_llms.daemons.asgi import JSON
from vibe_llms.daemons.gateway.calls import GatewayCall
from vibe_llms.daemons.gateway.client_requests import ClientRequest
from vibe_llms.daemons.gateway.faces.calls import (
    DEPLOYMENT,
    EMBEDDINGS,
    produce_route,
    read_call,
    read_deployment,
)
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.routes import Route
from vibe_llms.dialects.calls import ClientFormat
from vibe_llms.dialects.illustrations import openai_clients as images
from vibe_llms.dialects.speeches import openai as speeches
from vibe_llms.dialects.transcripts import openai_clients as transcripts
from vibe_llms.foundation.forms import FORM_TYPE
from vibe_llms.models.genera import Genus

IMAGES: Final = attrs.evolve(EMBEDDINGS, name="images", genus=Genus.ILLUSTRATOR)

SPEECH: Final = attrs.evolve(EMBEDDINGS, name="speech", genus=Genus.SPEAKER)
TRANSCRIPTIONS: Final = attrs.evolve(EMBEDDINGS, name="transcriptions", genus=Genus.TRANSCRIBER)

_FORMS: Final = (JSON, FORM_TYPE)
"""Accepted media types of requests with files."""

_DRAWING: Final = ClientFormat[Any, Any](
    protocol=images.PROTOCOL,
    path="/images/generations",
    read=images.normalize,
    write=images.nativize_result,
    produce_writer=partial(images.produce_writer, kind="image_generation"),
)
_EDITING: Final = ClientFormat[Any, Any](
    protocol=images.PROTOCOL,
    path="/images/edits",
    read=images.normalize_edit,
    write=images.nativize_result,
    produce_writer=partial(images.produce_writer, kind="image_edit"),
)
_SPEAKING: Final = ClientFormat[Any, Any](
    protocol=speeches.PROTOCOL,
    path="/audio/speech",
    read=speeches.normalize,
    write=speeches.nativize_result,
    produce_writer=speeches.produce_writer,
)
_TRANSCRIBING: Final = ClientFormat[Any, Any](
    protocol=transcripts.PROTOCOL,
    path="/audio/transcriptions",
    read=transcripts.normalize,
    write=transcripts.nativize_result,
    produce_writer=transcripts.produce_writer,
)
_TRANSLATING: Final = ClientFormat[Any, Any](
    protocol=transcripts.PROTOCOL,
    path="/audio/translations",
    read=transcripts.normalize_translation,
    write=transcripts.nativize_result,
)


def produce_routes(gateway: Gateway) -> tuple[Route, ...]:
    """Return the routes of images and audio, also with the prefix of Azure's clients."""
    produce = partial(produce_route, gateway)
    hear = partial(produce, TRANSCRIPTIONS, body_types=_FORMS)
    return (
        produce(SPEECH, _SPEAKING, "/v1/audio/speech", _read_speech),
        produce(SPEECH, _SPEAKING, f"{DEPLOYMENT}/audio/speech", _read_deployed_speech),
        hear(_TRANSCRIBING, "/v1/audio/transcriptions"),
        hear(_TRANSCRIBING, f"{DEPLOYMENT}/audio/transcriptions", read_deployment),
        hear(_TRANSLATING, "/v1/audio/translations"),
        hear(_TRANSLATING, f"{DEPLOYMENT}/audio/translations", read_deployment),
        produce(IMAGES, _DRAWING, "/v1/images/generations"),
        produce(IMAGES, _DRAWING, f"{DEPLOYMENT}/images/generations", read_deployment),
        produce(IMAGES, _EDITING, "/v1/images/edits", body_types=_FORMS),
        produce(IMAGES, _EDITING, f"{DEPLOYMENT}/images/edits", read_deployment, body_types=_FORMS),
    )


def _read_speech(call: GatewayCall, body: bytes) -> ClientRequest:
    """Find the model in the body; the audio is sent as it arrives."""
    return replace(read_call(call, body), streaming=True)


def _read_deployed_speech(call: GatewayCall, body: bytes) -> ClientRequest:
    return replace(read_deployment(call, body), streaming=True)

"""Calls that draw, speak and transcribe, in OpenAI's protocol."""

from __future__ import annotations

from functools import partial
from typing import Final

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


def produce_routes(gateway: Gateway) -> tuple[Route, ...]:
    """Return the routes of images and audio, also with the prefix of Azure's clients."""
    produce = partial(produce_route, gateway)
    speak = partial(produce, SPEECH, speeches.CLIENT_FORMAT)
    hear = partial(produce, TRANSCRIPTIONS, body_types=_FORMS)
    edit = partial(produce, IMAGES, images.EDIT_FORMAT, body_types=_FORMS)
    return (
        speak("/v1/audio/speech", _read_speech),
        speak(f"{DEPLOYMENT}/audio/speech", _read_deployed_speech),
        hear(transcripts.CLIENT_FORMAT, "/v1/audio/transcriptions"),
        hear(transcripts.CLIENT_FORMAT, f"{DEPLOYMENT}/audio/transcriptions", read_deployment),
        hear(transcripts.TRANSLATION_FORMAT, "/v1/audio/translations"),
        hear(transcripts.TRANSLATION_FORMAT, f"{DEPLOYMENT}/audio/translations", read_deployment),
        produce(IMAGES, images.CLIENT_FORMAT, "/v1/images/generations"),
        produce(IMAGES, images.CLIENT_FORMAT, f"{DEPLOYMENT}/images/generations", read_deployment),
        edit("/v1/images/edits"),
        edit(f"{DEPLOYMENT}/images/edits", read_deployment),
    )


def _read_speech(call: GatewayCall, body: bytes) -> ClientRequest:
    """Find the model in the body; the audio is sent as it arrives."""
    return replace(read_call(call, body), streaming=True)


def _read_deployed_speech(call: GatewayCall, body: bytes) -> ClientRequest:
    return replace(read_deployment(call, body), streaming=True)

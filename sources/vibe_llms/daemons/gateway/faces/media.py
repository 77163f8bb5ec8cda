"""Calls that draw and edit images, in OpenAI's protocol."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import attrs

from vibe_llms.daemons.asgi import JSON
from vibe_llms.daemons.gateway.faces.calls import (
    DEPLOYMENT,
    EMBEDDINGS,
    produce_route,
    read_deployment,
)
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.routes import Route
from vibe_llms.dialects.calls import ClientForm
from vibe_llms.dialects.illustrations import openai_clients as images
from vibe_llms.foundation.forms import FORM_TYPE
from vibe_llms.models.genera import Genus

IMAGES: Final = attrs.evolve(EMBEDDINGS, name="images", genus=Genus.ILLUSTRATOR)

_FORMS: Final = (JSON, FORM_TYPE)
"""Accepted media types of requests with files."""

_DRAWING: Final = ClientForm[Any, Any](
    protocol=images.PROTOCOL,
    path="/images/generations",
    read=images.normalize,
    write=images.nativize_result,
    produce_writer=partial(images.produce_writer, kind="image_generation"),
)
_EDITING: Final = ClientForm[Any, Any](
    protocol=images.PROTOCOL,
    path="/images/edits",
    read=images.normalize_edit,
    write=images.nativize_result,
    produce_writer=partial(images.produce_writer, kind="image_edit"),
)


def produce_routes(gateway: Gateway) -> tuple[Route, ...]:
    """Return the routes of images, also with the prefix of Azure's clients."""
    produce = partial(produce_route, gateway)
    return (
        produce(IMAGES, _DRAWING, "/v1/images/generations"),
        produce(IMAGES, _DRAWING, f"{DEPLOYMENT}/images/generations", read_deployment),
        produce(IMAGES, _EDITING, "/v1/images/edits", body_types=_FORMS),
        produce(IMAGES, _EDITING, f"{DEPLOYMENT}/images/edits", read_deployment, body_types=_FORMS),
    )

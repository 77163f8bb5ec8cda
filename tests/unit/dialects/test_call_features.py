"""Every field of a call is sent, applied to the answer, or named as lost."""

from __future__ import annotations

from typing import Any, get_type_hints

import attrs
import openai
import pytest
from openai.types import image_edit_params, image_generate_params
from openai.types.audio import transcription_create_params

from fidelity.calls import (
    FIELDS,
    READ_FROM_ANSWER,
    Vendor,
    compose_request,
    judge_field,
    survey_vendors,
)
from fidelity.clients import Face, judge_client_field, judge_face, survey_faces
from vibe_llms.messages.canisters import Origin
from vibe_llms.models.genera import Genus
from vibe_llms.testing.simulator import Simulator

FIXED = Origin(provider="vendor", model="model")
CASES = [(genus, vendor) for genus in FIELDS for vendor in survey_vendors(genus)]
FACES = [*survey_faces()]
NAMES = [f"{genus}-{vendor.title}" for genus, vendor in CASES]


@pytest.mark.parametrize(("genus", "vendor"), CASES, ids=NAMES)
def test_no_field_is_lost_silently(genus: Genus, vendor: Vendor) -> None:
    words = {judge_field(genus, title, vendor).word for title in FIELDS[genus]}

    assert words <= {"kept", "coerced", "dropped", "refused"}


@pytest.mark.parametrize(("title", "field"), sorted(READ_FROM_ANSWER))
async def test_a_field_that_is_not_sent_changes_what_is_read(title: str, field: str) -> None:
    genus, vendor = next(
        (genus, vendor)
        for genus, vendor in CASES
        if vendor.title == title and field in FIELDS[genus]
    )
    names = (field, READ_FROM_ANSWER[title, field])
    async with Simulator() as simulator:
        first, second = [
            await vendor.call(simulator.url, genus, compose_request(genus, name)) for name in names
        ]

    assert read_contents(first) != read_contents(second)


@pytest.mark.parametrize(("genus", "face"), FACES, ids=[face.title for _, face in FACES])
def test_no_field_of_a_client_is_lost_silently(genus: Genus, face: Face) -> None:
    words = {name: judge_client_field(genus, face, name).word for name in face.fields}

    assert {*words.values()} <= {"kept", "in the answer", "coerced", "dropped", "refused"}
    for vendor in survey_vendors(genus):
        assert judge_face(genus, face, vendor).word in ("kept", "in part", "unchanged", "refused")


@pytest.mark.parametrize(
    ("title", "parameters"),
    [
        ("/v1/embeddings", openai.types.EmbeddingCreateParams),
        ("/v1/images/generations", image_generate_params.ImageGenerateParamsBase),
        ("/v1/images/edits", image_edit_params.ImageEditParamsBase),
        ("/v1/moderations", openai.types.ModerationCreateParams),
        ("/v1/audio/speech", openai.types.audio.SpeechCreateParams),
        ("/v1/audio/transcriptions", transcription_create_params.TranscriptionCreateParamsBase),
        ("/v1/audio/translations", openai.types.audio.TranslationCreateParams),
    ],
)
def test_every_field_of_the_official_library_is_tried(title: str, parameters: type[Any]) -> None:
    face = next(face for _, face in FACES if face.title == title)

    assert {*get_type_hints(parameters)} <= {*face.body, *face.fields}


def read_contents(result: Any) -> Any:
    """Return the contents of a result, without its origin, which differs each time."""
    return attrs.evolve(result, origin=FIXED)

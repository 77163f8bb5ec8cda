"""A medium of an unsupported type is rejected, or withheld if it is in a result."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from fidelity.conversations import ask, produce_request
from fidelity.parties import PARTIES, Party
from vibe_llms.dialects.media_types import ensure_capability
from vibe_llms.exceptions import CapabilityError
from vibe_llms.messages.canisters import (
    AnyCanister,
    DocumentCanister,
    InvocationCanister,
    ResultCanister,
    UserCanister,
)
from vibe_llms.messages.contents import MEDIA_CLASSES, FileContent, ImageContent, MediaContent
from vibe_llms.messages.losses import LossKind
from vibe_llms.models.catalogue import Catalogue
from vibe_llms.models.integrators import ModelsIntegrator
from vibe_llms.models.keys import CAPABILITIES

DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
PICTURES = {"image_types": ["image/png", "image/jpeg"], "file_types": ["application/pdf", "text/*"]}
Learn = Callable[[str], Party]

each_party = pytest.mark.parametrize("party", PARTIES, ids=lambda party: party.name)


def learn(party: Party) -> Party:
    """Return a vendor with known media types of its model."""
    attributes = ModelsIntegrator(provider="any").integrate("any", facts=PICTURES)
    known = attrs.evolve(
        party.attributes, traced_values=(*party.attributes.traced_values, *attributes.traced_values)
    )

    @attrs.frozen(kw_only=True)
    class Learnt(Party):
        @property
        def attributes(self) -> Any:
            return known

    fields = {field.name: getattr(party, field.name) for field in attrs.fields(Party)}
    return Learnt(**fields)


@each_party
@pytest.mark.parametrize(
    "medium",
    [
        ImageContent(mime_type="image/tiff", data=b"II*"),
        ImageContent(mime_type="image/svg+xml", data=b"<svg/>"),
        ImageContent(mime_type="image/svg+xml", url="https://example.com/a.svg"),
        FileContent(mime_type=DOCX, data=b"PK"),
    ],
    ids=["tiff", "svg", "svg elsewhere", "docx"],
)
def test_an_unsupported_type_is_rejected(party: Party, medium: MediaContent) -> None:
    """The error has the type, the path, and the supported types."""
    kinds = [UserCanister((medium,))]
    if isinstance(medium, FileContent):
        kinds = [UserCanister((medium,)), DocumentCanister((medium,))]
    for canister in kinds:
        with pytest.raises(CapabilityError) as caught:
            learn(party).nativize(produce_request((canister, ask("What is it?"))))

        text = str(caught.value)
        assert medium.mime_type in text
        assert "canisters[0].content[0]" in text
        assert "image/png" in text or "application/pdf" in text


@each_party
def test_an_unsupported_type_in_a_result_is_withheld(party: Party) -> None:
    """The run continues without it, with a loss."""
    shown = ImageContent(mime_type="image/tiff", data=b"II*secret-bytes")
    canisters: list[AnyCanister] = [
        ask("Look."),
        InvocationCanister(invocation_id="abcdefghi", name="look", turn_id="t"),
        ResultCanister(("Seen.", shown), invocation_id="abcdefghi", name="look"),
    ]

    translation = learn(party).nativize(produce_request(canisters))

    assert "Seen." in json.dumps(translation.value)
    assert "image/tiff" not in json.dumps(translation.value)
    lost = [loss.kind for loss in translation.losses if loss.path == "canisters[2].content[1]"]
    assert LossKind.WITHHELD in lost


@each_party
@pytest.mark.parametrize(
    "medium",
    [
        ImageContent(mime_type="image/png", data=b"x"),
        ImageContent(mime_type="image/*", url="https://example.com/a"),
        FileContent(mime_type="text/markdown", data=b"# Sea"),
        FileContent(mime_type="application/json", data=b"{}"),
        FileContent(mime_type="application/pdf", data=b"%PDF", name="a.pdf"),
    ],
    ids=["png", "a picture of any type", "words", "json", "pdf"],
)
def test_supported_types_are_sent(party: Party, medium: MediaContent) -> None:
    """Supported types, unknown types, and text files, which are sent as text."""
    learn(party).nativize(produce_request((UserCanister((medium,)), ask("Well?"))))


@each_party
def test_all_types_are_sent_if_the_supported_ones_are_unknown(party: Party) -> None:
    """The vendor may accept any."""
    picture = ImageContent(mime_type="image/tiff", data=b"II*")

    party.nativize(produce_request((UserCanister((picture,)), ask("Well?"))))


@pytest.mark.parametrize("name", ["openai", "openai_responses", "openrouter"])
def test_a_document_without_a_name_gets_one_with_a_loss(name: str) -> None:
    """Vendors reject a file without a name, and read its type from the suffix."""
    party = next(each for each in PARTIES if each.name == name)
    document = FileContent(mime_type="application/pdf", data=b"%PDF")

    translation = party.nativize(produce_request((UserCanister((document,)), ask("Well?"))))

    assert '"filename": "document.pdf"' in json.dumps(translation.value)
    assert (LossKind.SYNTHESIZED, "canisters[0].content[0].name") in [
        (loss.kind, loss.path) for loss in translation.losses
    ]


def test_a_clients_document_without_a_name_gets_one() -> None:
    """Its own vendor would reject it, too."""
    party = next(each for each in PARTIES if each.name == "openai")
    part = {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERg=="}}
    body = {"model": "m", "messages": [{"role": "user", "content": [part]}]}

    translation = party.nativize(party.read(body))

    assert '"filename": "document.pdf"' in json.dumps(translation.value)
    assert [loss.kind for loss in translation.losses] == [LossKind.SYNTHESIZED]


@pytest.mark.parametrize("medium", MEDIA_CLASSES)
def test_each_kind_of_medium_has_a_capability(medium: type[MediaContent]) -> None:
    """A model that is known not to support a kind does not get it."""
    lacking = dict.fromkeys(CAPABILITIES, False)
    attributes = ModelsIntegrator(provider="any").integrate("any", facts=lacking)

    with pytest.raises(CapabilityError) as caught:
        ensure_capability(medium(data=b"x", mime_type="any/any"), attributes, "canisters[0]")

    assert caught.value.path == "canisters[0]"


@pytest.mark.parametrize(
    "provider", ["anthropic", "google", "openai_conversations", "openai_responses", "xai"]
)
def test_built_in_data_have_the_supported_types(provider: str) -> None:
    """With their source; no vendor supports TIFF or SVG."""
    attributes = Catalogue().access_integrator(provider).integrate("any")

    types = attributes.access_value("image_types")
    provenance = attributes.access_provenance("image_types")
    assert "image/png" in types  # type: ignore[operator]
    assert not {"image/tiff", "image/svg+xml"} & set(types)  # type: ignore[arg-type]
    assert provenance is not None
    assert provenance.source.startswith("https://")

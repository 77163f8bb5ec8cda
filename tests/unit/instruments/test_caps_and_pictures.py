"""What an input costs at most is known of pictures behind a URL, too, and refused of the rest."""

from __future__ import annotations

from typing import Final

import attrs
import pytest

from vibe_llms.dialects.serving import UNKNOWN_MODEL
from vibe_llms.exceptions import ConfigurationError
from vibe_llms.instruments.estimates import Estimator, write_input
from vibe_llms.messages.canisters import SupervisorCanister, UserCanister
from vibe_llms.messages.contents import FileContent, ImageContent, MediaContent
from vibe_llms.messages.requests import Request
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.models.pictures import bound_image

MODEL: Final = ModelDescriptor(
    provider="openai_conversations", name="gpt-4o-mini", attributes=UNKNOWN_MODEL
)
PATTERN: Final = Request(canisters=[UserCanister("x")], controls={"max_tokens": 10})
PICTURE: Final = ImageContent(mime_type="image/png", url="https://x.test/a.png")


def estimate(*contents: MediaContent, pattern: Request = PATTERN) -> int:
    said = write_input((UserCanister(["What is this?", *contents]),))
    return Estimator(MODEL, pattern).estimate(said)


def test_a_picture_behind_a_url_counts_with_the_most_that_it_can_be() -> None:
    """Its bytes are not here, and its URL says nothing of its size."""
    few, one, two = estimate(), estimate(PICTURE), estimate(PICTURE, PICTURE)

    # $0.15 for a million tokens, in billionths of a dollar; besides the words of the URL itself.
    most = 150 * bound_image(PICTURE, UNKNOWN_MODEL.access_value("image_tokens"))
    assert one - few > most
    assert two - one > most
    assert most > 150 * 1_600


def test_what_all_requests_have_counts_as_well() -> None:
    """As a picture among the instructions."""
    told = SupervisorCanister(["Compare with this.", PICTURE])
    pattern = attrs.evolve(PATTERN, canisters=(told, *PATTERN.canisters))

    assert estimate(pattern=pattern) - estimate() > 150 * 1_600


@pytest.mark.parametrize(
    "document",
    [
        FileContent(mime_type="application/pdf", url="https://x.test/a.pdf"),
        FileContent(mime_type="application/pdf", file_id="file-1"),
    ],
)
def test_a_document_behind_a_url_is_refused(document: FileContent) -> None:
    """It may have any number of pages."""
    with pytest.raises(
        ConfigurationError, match=r"size of the application/pdf behind a URL is unknown"
    ):
        estimate(document)


def test_words_that_look_like_a_url_are_words() -> None:
    """A text may say anything."""
    said = '{"url": "https://x.test"}'
    assert Estimator(MODEL, PATTERN).estimate(write_input(said)) > 0

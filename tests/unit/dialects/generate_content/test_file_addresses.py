"""Addresses of files in parts: what is neither an address nor a file of Google stays native."""

from __future__ import annotations

from typing import Any

import pytest

from vibe_llms.dialects.generate_content.calling.media import read_media
from vibe_llms.messages.contents import VideoContent


@pytest.mark.parametrize(
    "source",
    [
        {"fileUri": 5},
        {"fileUri": ["gs://a/b"]},
        {"fileUri": "abc-123", "mimeType": "image/png"},
        {"fileUri": "gs://a/b", "mimeType": 5},
        {},
    ],
)
def test_invalid_files_are_not_media(source: dict[str, Any]) -> None:
    """They are kept for the vendor, instead of an error or a URL that is none."""
    assert read_media({"fileData": source}) is None


@pytest.mark.parametrize(
    ("uri", "field"),
    [
        ("https://example.com/a.mp4", "url"),
        ("https://youtu.be/abc", "url"),
        ("gs://bucket/a.mp4", "file_id"),
        ("https://generativelanguage.googleapis.com/v1beta/files/a", "file_id"),
    ],
)
def test_public_addresses_are_urls_and_others_files(uri: str, field: str) -> None:
    media = read_media({"fileData": {"fileUri": uri, "mimeType": "video/mp4"}})
    assert isinstance(media, VideoContent)
    assert getattr(media, field) == uri

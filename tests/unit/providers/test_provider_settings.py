"""Settings that every remote provider has: what holds, and what is refused and not ignored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from remoting import produce_context
from vibe_llms.exceptions import ConfigurationError
from vibe_llms.providers.settings import RemoteSettings, read_settings


def read(directory: Path, **settings: Any) -> RemoteSettings:
    """Reads the settings of some provider."""
    return read_settings(produce_context("some", directory, **settings), "https://some.example")


def test_names_of_headers_are_in_lower_case(tmp_path: Path) -> None:
    """So that one of the user replaces ours, however it is written."""
    settings = read(tmp_path, headers={"Authorization": "Bearer mine"})
    assert settings.headers["authorization"].reveal() == "Bearer mine"


@pytest.mark.parametrize("end", ["?api-version=1", "#here"])
def test_an_address_to_which_no_path_can_be_added_is_refused(tmp_path: Path, end: str) -> None:
    """The path would become part of a query."""
    with pytest.raises(ConfigurationError, match="base_url: It must be an address without"):
        read(tmp_path, base_url=f"https://some.example/v1{end}")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("certificate_authorities", "authorities.pem"),
        ("client_certificate", "me.pem"),
        ("client_key", "me.key"),
        ("connect_seconds", 5),
        ("headers", {"x-team": "sea"}),
        ("proxy", "http://proxy.example:3128"),
    ],
)
def test_what_does_not_reach_an_official_package_is_refused(
    tmp_path: Path, name: str, value: Any
) -> None:
    """Rather than ignored: who sets a proxy means it."""
    with pytest.raises(ConfigurationError, match=f"some.{name}: It does not reach"):
        read(tmp_path, transport="sdk", **{name: value})
    read(tmp_path, **{name: value})

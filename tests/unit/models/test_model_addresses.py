"""How a model is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.exceptions import ConfigurationError
from vibe_llms.models.addresses import ModelAddress

PROVIDERS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,12}", fullmatch=True)
NAMES = st.text().map(str.strip)


@given(provider=PROVIDERS, name=NAMES)
def test_an_address_reads_back_from_its_text(provider: str, name: str) -> None:
    """What ``str`` writes, ``parse`` reads, whatever the model is called."""
    address = ModelAddress(provider, name)

    assert ModelAddress.parse(str(address)) == address


@given(provider=PROVIDERS, name=NAMES.filter(bool))
def test_only_the_first_colon_separates(provider: str, name: str) -> None:
    """A model's name may contain colons and slashes, such as a path or a tag."""
    address = ModelAddress.parse(f"{provider}:a/b:{name}")

    assert (address.provider, address.name) == (provider, f"a/b:{name}")


def test_a_bare_provider_has_no_model_name() -> None:
    """A provider alone stands for its default model."""
    assert ModelAddress.parse(" local ") == ModelAddress("local", "")


@pytest.mark.parametrize("text", ["", ":", ":x", "a b:x", "../up:x", "local:", "-x:y"])
def test_a_text_that_names_nothing_is_refused_with_a_remedy(text: str) -> None:
    """A wrong address says how to write a right one."""
    with pytest.raises(ConfigurationError) as caught:
        ModelAddress.parse(text)

    assert caught.value.remedy

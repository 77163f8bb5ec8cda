"""Whose key is sent: of all places where one may lie, the nearest, and never another in silence."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quality.properties import examples
from vibe_llms.exceptions import ConfigurationError, ProviderError, ProviderFault
from vibe_llms.foundation import child_environment
from vibe_llms.foundation.child_environment import strip_keys
from vibe_llms.foundation.secrets import Secret
from vibe_llms.providers.credentials import acquire_key, advise_key, advise_of_key
from vibe_llms.providers.key_storage import store_key

FIRST, SECOND, NAMED = "PARROT_KEY", "PARROT_TOKEN", "MINE"


@examples(200)
@given(
    given_at=st.sets(st.sampled_from(["api_key", "api_key_file", "api_key_variable"])),
    set_variables=st.sets(st.sampled_from([FIRST, SECOND, NAMED])),
    is_kept=st.booleans(),
)
def test_a_key_is_found_where_it_is_nearest_and_a_named_variable_stands_for_no_other(
    given_at: set[str], set_variables: set[str], is_kept: bool
) -> None:
    """Settings, the file, the variables, what is kept; a named variable excludes the usual ones."""
    variables = {name: f"from-{name}" for name in set_variables}
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, variables, clear=True),
        mock.patch.dict(sys.modules, {"keyring": None}),  # kept in a file, not in the developer's
    ):
        file = Path(folder, "file")
        file.write_text(" from-file\n")
        values = {"api_key": "direct", "api_key_file": str(file), "api_key_variable": NAMED}
        if is_kept:
            store_key("parrot", Path(folder), Secret("from-kept"))

        chosen = {key: values[key] for key in given_at}
        found = acquire_key("parrot", chosen, (FIRST, SECOND), Path(folder))

    asked = [NAMED] if "api_key_variable" in given_at else [FIRST, SECOND]
    expected = [
        *(["direct"] if "api_key" in given_at else []),
        *(["from-file"] if "api_key_file" in given_at else []),
        *(f"from-{name}" for name in asked if name in set_variables),
        *(["from-kept"] if is_kept else []),
        None,
    ]
    assert (found and found.reveal()) == expected[0]


@pytest.mark.parametrize(
    ("variables", "settings_", "place"),
    [
        ({"PARROT_KEY": "a b"}, {}, "the variable PARROT_KEY"),
        ({"MINE": "a b"}, {"api_key_variable": "MINE"}, "the variable MINE"),
        ({}, {"api_key": "a b"}, "providers.parrot.api_key"),
    ],
)
def test_what_is_no_key_is_refused_with_its_place(
    variables: dict[str, str], settings_: dict[str, str], place: str
) -> None:
    """Nothing else is tried in its stead, and its place is said."""
    with (
        mock.patch.dict(os.environ, variables, clear=True),
        pytest.raises(ConfigurationError) as caught,
    ):
        acquire_key("parrot", settings_, ("PARROT_KEY", "OTHER"))

    assert [finding.place for finding in caught.value.findings] == [place]


def test_a_variable_that_held_a_key_is_given_to_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is called."""
    monkeypatch.setattr(child_environment, "_key_variables", set())
    monkeypatch.setattr(child_environment, "_is_concealed", False)
    environment = {"FOOD": "crackers", "DRINK": "water"}
    with mock.patch.dict(os.environ, environment):
        acquire_key("parrot", {"api_key_variable": "FOOD"}, ())

    assert strip_keys(environment) == {"DRINK": "water"}


def test_what_a_keyring_has_is_asked_for_by_the_provider(tmp_path: Path) -> None:
    """And is refused where it is no key, as any other is."""
    kept = {"parrot": "from-keyring", "gull": "a b"}
    keyring = SimpleNamespace(
        get_keyring=lambda: SimpleNamespace(priority=1),
        set_password=lambda *entry: None,
        get_password=lambda service, provider: kept.get(provider),
    )
    with mock.patch.dict(sys.modules, {"keyring": keyring}):
        store_key("parrot", tmp_path, Secret("from-keyring"))
        found = acquire_key("parrot", {}, (), tmp_path)
        with pytest.raises(ConfigurationError) as caught:
            acquire_key("gull", {}, (), tmp_path)

    assert found is not None
    assert found.reveal() == "from-keyring"
    assert [finding.place for finding in caught.value.findings] == ["the stored key of gull"]


def test_where_nothing_is_kept_there_is_no_key() -> None:
    assert acquire_key("parrot", {}, ()) is None


@pytest.mark.parametrize("content", [b"", b" \n", b"a b", b"caf\xc3\xa9", b"\xff"])
def test_a_file_with_no_key_is_refused_where_another_key_is_at_hand(
    tmp_path: Path, content: bytes
) -> None:
    """An empty file is a mistake, not a reason to take the key of the environment."""
    file = tmp_path / "key"
    file.write_bytes(content)

    with (
        mock.patch.dict(os.environ, {FIRST: "from-variable"}),
        pytest.raises(ConfigurationError, match="key"),
    ):
        acquire_key("parrot", {"api_key_file": str(file)}, (FIRST,))


@pytest.mark.parametrize(
    ("content", "place", "reason"),
    [
        (None, "providers.parrot.api_key_file", "No such file or directory"),
        (b"\xff", "providers.parrot.api_key_file", "it is not UTF-8"),
        (b"a b", "{file}", "Invalid key"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(
    tmp_path: Path, content: bytes | None, place: str, reason: str
) -> None:
    """Whether it is missing, no text, or no key; what is in it is not said."""
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(ConfigurationError) as caught:
        acquire_key("parrot", {"api_key_file": str(file)}, ())

    (finding,) = caught.value.findings
    assert finding.place == place.format(file=file)
    assert reason in finding.message
    assert "a b" not in finding.message


def test_the_advice_names_the_variable_where_there_is_one() -> None:
    """Else only what can always be done."""
    assert advise_key("parrot", FIRST).startswith(f"Set {FIRST}, or api_key_file in [providers.par")
    assert advise_key("parrot").startswith("Set api_key_file in [providers.parrot], or run: vibe")


@pytest.mark.parametrize("fault", ProviderFault)
@pytest.mark.parametrize("remedy", ["", "Ask the parrot."])
def test_only_a_refused_key_without_a_remedy_is_advised_upon(
    fault: ProviderFault, remedy: str
) -> None:
    """Where the vendor or we said what to do, and where the key is not to blame, that stands."""
    error = ProviderError(provider="parrot", fault=fault, detail="No. ", remedy=remedy)
    unnamed = ProviderError(provider="parrot", fault=fault, detail="No. ", remedy=remedy)

    advise_of_key(error, "parrot", (FIRST, SECOND))
    advise_of_key(unnamed, "parrot", ())

    if fault is ProviderFault.AUTHENTICATION and not remedy:
        assert (error.detail, error.remedy) == (
            "No.",
            f"Check the key, in {FIRST} or [providers.parrot].",
        )
        assert unnamed.remedy == "Check the key, in [providers.parrot]."
    else:
        assert (error.detail, error.remedy) == ("No. ", remedy)

"""The file of keys: what it says holds at once, and what does not hold lets nobody in."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.gateways.key_holders import create_key, read_keys
from vibe_llms.daemons.keys.register import Register
from vibe_llms.daemons.keys.texts import extract_identity
from vibe_llms.exceptions import ConfigurationError, RequestError, UnknownNameError


def test_what_was_given_out_is_read_again(tmp_path: Path) -> None:
    """With all that it may do; the key itself is not in the file."""
    expires = datetime(2030, 1, 2, 3, 4, tzinfo=UTC)
    text = create_key(
        tmp_path, "ada", expires=expires, models=("gpt-*", "o?"), requests_per_minute=3,
        tokens_per_minute=4, cents_per_day=5,
    )  # fmt: skip

    key = read_keys(str(tmp_path / "keys.toml"))[extract_identity(text)]

    assert (key.name, key.expires, key.models) == ("ada", expires, ("gpt-*", "o?"))
    assert (key.requests_per_minute, key.tokens_per_minute, key.cents_per_day) == (3, 4, 5)
    assert key.is_bounded
    held = (tmp_path / "keys.toml").read_text()
    assert text[len("vk-") + 9 :] not in held
    assert (tmp_path / "keys.toml").stat().st_mode & 0o777 == 0o600
    assert key.digest not in repr(key)


def test_others_comments_stay(tmp_path: Path) -> None:
    """People may write into the file, too."""
    text = create_key(tmp_path)
    file = tmp_path / "keys.toml"
    file.write_text(file.read_text() + "# of the team in Oslo\nrequests_per_minute = 7\n")

    Register(tmp_path).revoke("ada")
    create_key(tmp_path, "bob")

    assert "# of the team in Oslo" in file.read_text()
    key = read_keys(str(file))[extract_identity(text)]
    assert (key.requests_per_minute, key.revoked is not None) == (7, True)


def test_a_change_is_seen_whoever_made_it(tmp_path: Path) -> None:
    """By another process, in the same moment, and even where the file is as long as before."""
    looked = Register(tmp_path)
    assert looked.load() == {}
    assert looked.access_keys() == {}

    text = create_key(tmp_path)
    assert looked.access_keys() is None
    assert extract_identity(text) in looked.load()

    file = tmp_path / "keys.toml"
    status = file.stat()
    file.write_text(file.read_text().replace('"ada"', '"eve"'))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    keys = looked.access_keys() or looked.load()
    assert [key.name for key in keys.values()] == ["eve"]


def test_a_file_that_has_settled_is_read_once(tmp_path: Path) -> None:
    """What is asked at each request costs a look at its place alone."""
    create_key(tmp_path)
    later = (tmp_path / "keys.toml").stat().st_mtime + 5
    looked = Register(tmp_path, lambda: later)

    keys = looked.load()

    assert looked.access_keys() is keys
    assert looked.load() is keys  # as by several threads that have noticed the same change


def test_a_key_is_revoked_by_name_or_id_and_stays_so(tmp_path: Path) -> None:
    """A name can be given again then."""
    first = extract_identity(create_key(tmp_path))
    register = Register(tmp_path)

    assert register.revoke("ada")[0] == first
    moment = read_keys(str(register.path))[first].revoked
    second = extract_identity(create_key(tmp_path))
    register.revoke(first)

    keys = read_keys(str(register.path))
    assert keys[first].revoked == moment
    assert keys[second].revoked is None
    assert register.revoke("ada")[0] == second


def test_a_name_is_given_once_and_an_unknown_one_is_told(tmp_path: Path) -> None:
    """Nothing is written then."""
    create_key(tmp_path)
    before = (tmp_path / "keys.toml").read_bytes()

    with pytest.raises(RequestError, match="'ada' already"):
        create_key(tmp_path)
    with pytest.raises(UnknownNameError, match="ada"):
        Register(tmp_path).revoke("adda")

    assert (tmp_path / "keys.toml").read_bytes() == before


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "ada"', "name = 7", "name"),
        ("[", "[x", "public part"),
        ("digest", "digset", "digest"),
        ("created = 2", "created = 3 # 2", "moment"),
        ('name = "ada"', 'name = "ada"\nrequests_per_minute = 0', "at least 1"),
        ('name = "ada"', 'name = "ada"\nexpires = 2030-01-01', "moment"),
        ('name = "ada"', 'name = "ada"\nexpires = 9999-12-31T23:59:59-12:00', "out of range"),
        ('name = "ada"', f'name = "ada"\ncents_per_day = {2**53 + 1}', "at most"),
        ('name = "ada"', "\x00", "TOML"),
    ],
)
def test_what_does_not_hold_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    """And nothing is changed that could not be read."""
    create_key(tmp_path)
    file = tmp_path / "keys.toml"
    file.write_text(file.read_text().replace(old, new, 1))
    before = file.read_bytes()

    with pytest.raises(ConfigurationError, match=said) as caught:
        Register(tmp_path).load()
    with pytest.raises(ConfigurationError):
        create_key(tmp_path, "bob")

    assert all(finding.line for finding in caught.value.findings)
    assert file.read_bytes() == before


def test_limits_are_changed_and_removed_and_all_else_stays(tmp_path: Path) -> None:
    text = create_key(tmp_path, "ada", requests_per_minute=3, models=("gpt-*",))
    create_key(tmp_path, "bob", cents_per_day=9)
    file = tmp_path / "keys.toml"
    file.write_text(file.read_text() + "# of the team in Oslo\n")
    register = Register(tmp_path)
    expires = datetime(2030, 1, 2, tzinfo=UTC)

    identity, changed = register.limit(
        "ada", {"cents_per_day": 0, "requests_per_minute": None, "models": (), "expires": expires}
    )

    assert identity == extract_identity(text)
    read = read_keys(str(file))
    assert read[identity] == changed
    assert (changed.cents_per_day, changed.requests_per_minute) == (0, None)
    assert (changed.models, changed.expires) == ((), expires)
    assert "# of the team in Oslo" in file.read_text()
    assert [key.cents_per_day for key in read.values()] == [0, 9]
    with pytest.raises(UnknownNameError):
        register.limit("eve", {"cents_per_day": 1})


def test_only_an_operator_is_written_as_one(tmp_path: Path) -> None:
    create_key(tmp_path, "ada")
    assert "operator" not in (tmp_path / "keys.toml").read_text()
    text = create_key(tmp_path, "root", operator=True)
    assert read_keys(str(tmp_path / "keys.toml"))[extract_identity(text)].operator

"""One table of a file of keys changes, and all else stays, however users have written it."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli
import tomlkit

from support.gateways.key_holders import create_key, read_keys
from vibe_llms.daemons.keys import register as register_module
from vibe_llms.daemons.keys.editing import append_table, change_table
from vibe_llms.daemons.keys.register import Register
from vibe_llms.exceptions import ConfigurationError, StoreError

TEXTS = {
    "usual": '# top\n[aaaaaaaa]\nname = "a"  # who\ncents = 1\n# of b\n[bbbbbbbb]\nname = "b"\n',
    "last": '[bbbbbbbb]\nname = "b"\n\n[aaaaaaaa] # here\nname = "a"\ncents = 1\n# end',
    "spaced": '  [ "aaaaaaaa" ]\n  name = "a"\n  cents = 1\n\n\n\n[bbbbbbbb]\nname = "b"\n',
    "apostrophes": "['aaaaaaaa']\nname = 'a'\ncents = 1\n['bbbbbbbb']\nname = 'b'\n",
    "windows": '[aaaaaaaa]\r\nname = "a"\r\ncents = 1\r\n[bbbbbbbb]\r\nname = "b"\r\n',
    "inline": 'aaaaaaaa = { name = "a", cents = 1 }\nbbbbbbbb = { name = "b" }\n',
    "dotted": 'aaaaaaaa.name = "a"\naaaaaaaa.cents = 1\n[bbbbbbbb]\nname = "b"\n',
    "text": '[bbbbbbbb]\nname = """\n[aaaaaaaa]\ncents = 7\n"""\n[aaaaaaaa]\ncents = 1\n',
    "only in a text": 'aaaaaaaa = { name = "a" }\n[bbbbbbbb]\nname = """\n[aaaaaaaa]\n"""\n',
    "long text": '[aaaaaaaa]\nname = """a\n[cccccccc]\n"""\ncents = 1\n[bbbbbbbb]\nname = "b"\n',
    "list": '[aaaaaaaa]\nmodels = [\n"x",\n# [cccccccc]\n]\ncents = 1\n[bbbbbbbb]\nname = "b"\n',
    "nested list": '[aaaaaaaa]\nmodels = [\n["x"],\n]\ncents = 1\n[bbbbbbbb]\nname = "b"\n',
    "commented": '# [aaaaaaaa]\n[aaaaaaaa]\nname = "a"\n#cents = 2\n',
    "within": '[aaaaaaaa]\nname = "a"\n[aaaaaaaa.more]\nx = 1\n[bbbbbbbb]\nname = "b"\n',
    "empty": "[aaaaaaaa]\n[bbbbbbbb]\n",
}


@pytest.mark.parametrize("how", TEXTS)
def test_a_field_is_set_and_removed_wherever_the_table_is(how: str) -> None:
    text = TEXTS[how]
    before = tomli.loads(text)

    changed = change_table(text, "aaaaaaaa", {"cents": 5, "day": 'a "day"\n\x7f', "models": None})

    expected = before["aaaaaaaa"] | {"cents": 5, "day": 'a "day"\n\x7f'}
    expected.pop("models", None)
    assert tomli.loads(changed) == before | {"aaaaaaaa": expected}
    assert list(tomli.loads(changed)) == list(before)
    lines = changed.splitlines()
    assert [each for each in text.splitlines() if "#" in each and each not in lines] == (
        ["# [cccccccc]"] if how == "list" else []  # within what was removed
    )


@pytest.mark.parametrize("how", ["", "# top", "# top\n", *TEXTS.values()])
def test_a_table_is_added_at_the_end(how: str) -> None:
    changed = append_table(how, "dddddddd", {"name": "d", "models": ["x\x00", "é\u2028"]})

    assert changed.startswith(how)
    added = {"name": "d", "models": ["x\x00", "é\u2028"]}
    assert tomli.loads(changed) == tomli.loads(how) | {"dddddddd": added}


def test_a_large_file_is_not_parsed_by_the_slow_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time grows with each key, to seconds for some thousands."""
    for number in range(12):
        create_key(tmp_path, f"key {number}", models=("gpt-*",))
    sizes: list[int] = []
    parse = tomlkit.parse

    def measure(text: str) -> tomlkit.TOMLDocument:
        sizes.append(len(text))
        return parse(text)

    monkeypatch.setattr(tomlkit, "parse", measure)
    register = Register(tmp_path)
    register.limit("key 3", {"models": (), "cents_per_day": 7})
    register.revoke("key 4")
    create_key(tmp_path, "another")

    assert max(sizes) < register.path.stat().st_size / 6
    keys = {key.name: key for key in read_keys(str(register.path)).values()}
    assert len(keys) == 13
    assert (keys["key 3"].cents_per_day, keys["key 3"].models) == (7, ())
    assert keys["key 4"].revoked is not None


NAME, TEXT = '"a"', '"""\n[cccccccc]\n"""'
TABLE = f'name = "a"\ndigest = "{"0" * 64}"\ncreated = 2026-01-01T00:00:00Z\n'
FILES = {
    "usual": f"# top\n[aaaaaaaa]\n{TABLE}# of b\n\n[bbbbbbbb] # b\n{TABLE}",
    "empty": "",
    "comment": "# top",
    "no comment": f"x = 1\n[aaaaaaaa]\n{TABLE}",
    "control character": f"# \x00\n[aaaaaaaa]\n{TABLE}",
    "twice": f"[aaaaaaaa]\n{TABLE}[bbbbbbbb]\n{TABLE}[aaaaaaaa]\n{TABLE}",
    "twice the same name": f"[aaaaaaaa]\n{TABLE}['aaaaaaaa']\n{TABLE}",
    "inline": f"aaaaaaaa = {{ {TABLE.strip().replace(chr(10), ', ')} }}\n[bbbbbbbb]\n{TABLE}",
    "header in a text": f"[aaaaaaaa]\n{TABLE}[bbbbbbbb]\n{TABLE.replace(NAME, TEXT)}",
    "within": f"[aaaaaaaa]\n{TABLE}[aaaaaaaa.more]\nx = 1\n",
    "list": f"[[aaaaaaaa]]\n{TABLE}",
    "lists": f'[aaaaaaaa]\n{TABLE}models = [\n"x",\n[\n"y"]]\n',
    "deep": f"[aaaaaaaa]\n{TABLE}models = {'[' * 10_000}\n",
    "unknown field": f"[aaaaaaaa]\n{TABLE}[bbbbbbbb]\n{TABLE}nane = 1\n",
    "no public part": f"[keys]\n{TABLE}",
    "half": f"[aaaaaaaa]\n{TABLE}[bbbbbbb",
    "windows": f"[aaaaaaaa]\n{TABLE}[bbbbbbbb]\n{TABLE}".replace("\n", "\r\n"),
    "no text": f"[aaaaaaaa]\n{TABLE}# \udcff\n[bbbbbbbb]\n{TABLE}",
}


@pytest.mark.parametrize("how", FILES)
def test_a_file_that_is_read_table_by_table_means_the_same(tmp_path: Path, how: str) -> None:
    """Also after another one was read, and with the same mistakes at the same lines."""
    register = Register(tmp_path)
    for text in (FILES["usual"], FILES[how]):
        register.path.write_bytes(text.encode("utf-8", "surrogateescape"))
        try:
            expected: object = read_keys(str(register.path))
        except ConfigurationError as error:
            expected = str(error)
        for read in (register, Register(tmp_path)):
            try:
                keys: object = read.load()
            except ConfigurationError as error:
                keys = str(error)
            assert keys == expected


def test_what_a_user_writes_at_the_same_moment_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change is made in the file that the user has saved meanwhile."""
    create_key(tmp_path, "ada")
    file = tmp_path / "keys.toml"
    saved: list[str] = []

    def save_first(text: str, *arguments: object) -> str:
        if not saved:  # an editor, which replaces the file or writes into it
            saved.append(text)
            file.write_text(text.replace('"ada"', '"adah"') + "# of the team in Oslo\n")
        return append_table(text, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(register_module, "append_table", save_first)
    create_key(tmp_path, "bob")

    assert [key.name for key in read_keys(str(file)).values()] == ["adah", "bob"]
    assert "# of the team in Oslo" in file.read_text()


def test_a_file_that_is_read_only_is_not_replaced(tmp_path: Path) -> None:
    create_key(tmp_path, "ada")
    file = tmp_path / "keys.toml"
    before = file.read_bytes()
    file.chmod(0o400)
    register = Register(tmp_path)

    for change in (
        lambda: create_key(tmp_path, "bob"),
        lambda: register.revoke("ada"),
        lambda: register.limit("ada", {"cents_per_day": 1}),
    ):
        with pytest.raises(StoreError, match="read-only"):
            change()

    assert file.read_bytes() == before
    assert file.stat().st_mode & 0o777 == 0o400

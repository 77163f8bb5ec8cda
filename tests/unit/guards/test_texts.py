"""All texts of a value are examined, however they are written."""

from __future__ import annotations

import json

import pytest

from support.guards.guarding import activate
from vibe_llms.guards.active import redact_texts
from vibe_llms.guards.shipped.secrets import SecretGuard
from vibe_llms.guards.texts import rewrite_content, rewrite_json
from vibe_llms.messages.contents import FileContent
from vibe_llms.plugins.specification.guards import Inspection

MARK = "[card number removed]"


async def mark_json(data: str) -> str:
    result = await redact_texts(
        activate(SecretGuard()),
        lambda change: rewrite_json(data, "arguments", change),
        Inspection(part="request", texts=()),
    )
    return result.value


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ('{"card": "4111111111111111", "card": "none"}', {"card": "none"}),
        ('[{"a": {"card": 4111111111111111, "card": 1}}]', [{"a": {"card": 1}}]),
        ("[4111111111111111.0, 1.5]", [MARK, 1.5]),
        ("4.111111111111111e15", MARK),
        (
            '{"4111111111111111": 1, "5500005555555559": 2, "378282246310005": 3}',
            {MARK: 1, f"{MARK} (2)": 2, f"{MARK} (3)": 3},
        ),
        (
            f'{{"{MARK} (2)": 1, "4111111111111111": 2, "{MARK}": 3}}',
            {f"{MARK} (2)": 1, MARK: 2, f"{MARK} (3)": 3},
        ),
    ],
)
async def test_json_hides_no_number_and_loses_no_value(data: str, value: object) -> None:
    marked = await mark_json(data)

    assert json.loads(marked) == value
    assert not any(each in marked for each in ("4111", "5500", "3782"))


@pytest.mark.parametrize(
    "data", ['{"a": 1, "b": {"a": 1}}', "1e300", "[1.0]", "\\u00e9", f"[{'9' * 5_000}]", "{1}"]
)
async def test_harmless_json_stays_as_it_is_written(data: str) -> None:
    assert await mark_json(data) == data


@pytest.mark.parametrize(
    ("mime_type", "encoding"),
    [
        ("application/yaml", "utf-8"),
        ("application/toml", "utf-8"),
        ("application/ld+json", "utf-8"),
        ("application/octet-stream", "utf-8-sig"),
        ("TEXT/PLAIN", "utf-8"),
        ("text/csv", "utf-16"),
    ],
)
async def test_files_of_text_are_examined_whatever_their_type(
    mime_type: str, encoding: str
) -> None:
    file = FileContent(data="My card: 4111111111111111 é".encode(encoding), mime_type=mime_type)

    result = await mark_file(file)

    assert result.data is not None
    assert result.data.decode(encoding) == f"My card: {MARK} é"
    assert result.content_id != file.content_id


@pytest.mark.parametrize("data", [b"%PDF 4111111111111111 \xff", b"4111111111111111\0"])
async def test_binary_files_stay_as_they_are(data: bytes) -> None:
    file = FileContent(data=data, mime_type="application/pdf")

    assert await mark_file(file) is file


async def mark_file(file: FileContent) -> FileContent:
    result = await redact_texts(
        activate(SecretGuard()),
        lambda change: rewrite_content(file, "content", change),
        Inspection(part="request", texts=()),
    )
    assert isinstance(result.value, FileContent)
    return result.value

"""Canisters as JSON Lines: equal values, equal bytes, and back to equal values."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.messages import canisters, contents, conversations, json_values
from vibe_llms.exceptions import CodecError, RequestError
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    DocumentCanister,
    InvocationCanister,
    ResultCanister,
    UserCanister,
)
from vibe_llms.messages.codec.canister_lines import (
    decode_canister,
    decode_canisters,
    encode_canister,
    encode_canisters,
)
from vibe_llms.messages.codec.converter import produce_converter
from vibe_llms.messages.codec.decoding import read_tree
from vibe_llms.messages.contents import (
    AnyContent,
    FileContent,
    ImageContent,
    Native,
    ReasoningContent,
    TextualContent,
)

MOMENT = "2025-11-15T10:00:00Z"


@given(canisters)
def test_what_is_written_reads_back_equal(canister: AnyCanister) -> None:
    """A canister of any kind comes back equal, and is written again in the same bytes."""
    line = encode_canister(canister)

    again = decode_canister(line)

    assert again == canister
    assert hash(again) == hash(canister)
    assert encode_canister(again) == line
    assert decode_canister(line.decode()) == canister


@given(canisters)
def test_what_is_read_is_what_a_constructor_makes(canister: AnyCanister) -> None:
    """The read value has tuples, words of enumerations and UTC like a constructed one, in order."""
    again = decode_canister(encode_canister(canister))

    def check(one: Any, other: Any) -> None:
        assert type(one) is type(other)
        if attrs.has(type(one)):
            for field in attrs.fields(type(one)):
                check(getattr(one, field.name), getattr(other, field.name))
        elif isinstance(one, tuple):
            for each, peer in zip(one, other, strict=True):
                check(each, peer)
        elif isinstance(one, datetime):
            assert one.tzinfo is other.tzinfo is UTC

    check(again, canister)


@given(conversations)
def test_a_conversation_is_a_line_a_canister(conversation: list[AnyCanister]) -> None:
    """Each line ends in its newline and stands for itself."""
    data = encode_canisters(conversation)

    assert data == b"".join(encode_canister(each) + b"\n" for each in conversation)
    assert decode_canisters(data) == conversation


def test_a_line_reads_as_the_requirements_show_it() -> None:
    """Role, timestamp and contents come first, in this order, then the id and the rest."""
    moment = datetime(2025, 11, 15, 10, tzinfo=UTC)
    picture = ImageContent(mime_type="image/png", content_id="ab" * 32)
    canister = UserCanister([TextualContent("What?"), picture], timestamp=moment, id="a")

    line = encode_canister(canister).decode()

    assert line == (
        '{"role":"user","timestamp":"2025-11-15T10:00:00Z","content":['
        '{"type":"text","text":"What?","mime_type":"text/plain","citations":[],"native":null},'
        f'{{"type":"image","mime_type":"image/png","data":null,"content_id":"{"ab" * 32}",'
        '"url":null,"file_id":null,"name":null,"native":null,"detail":null}],"id":"a","native":null}'
    )


def test_inline_bytes_are_written_in_base64() -> None:
    """The portable form carries the bytes of media beside their name."""
    content = ImageContent(mime_type="image/png", data=b"\xff\x00picture")
    canister = UserCanister(content)

    line = encode_canister(canister)

    assert b'"data":"/wBwaWN0dXJl"' in line
    assert decode_canister(line) == canister


def test_equal_moments_are_written_alike() -> None:
    """A moment is written in UTC whatever zone it was given in."""
    oslo = datetime(2025, 11, 15, 11, tzinfo=timezone(timedelta(hours=1)))
    here = datetime(2025, 11, 15, 10, tzinfo=UTC)

    assert encode_canister(UserCanister("x", id="a", timestamp=oslo)) == encode_canister(
        UserCanister("x", id="a", timestamp=here)
    )


def test_a_moment_is_read_into_utc() -> None:
    """A line may tell the time of its own zone; the value is in UTC like any other."""
    line = b'{"role":"user","timestamp":"2025-11-15T11:00:00+01:00","content":[],"id":"a"}'

    (canister,) = decode_canisters(line)

    assert canister == UserCanister(id="a", timestamp=datetime(2025, 11, 15, 10, tzinfo=UTC))
    assert canister.timestamp.tzinfo is UTC


def test_a_line_written_by_hand_reads() -> None:
    """Role, timestamp and content are enough; everything else has a default."""
    line = (
        f'{{"role": "user", "timestamp": "{MOMENT}", "content": [\n'
        '  {"type": "text", "text": "What is in this image?"},\n'
        f'  {{"type": "image", "mime_type": "image/png", "content_id": "{"ab" * 32}"}}]}}'
    )

    canister = decode_canister(line)

    assert canister.timestamp == datetime(2025, 11, 15, 10, tzinfo=UTC)
    assert canister.content == (
        TextualContent("What is in this image?"),
        ImageContent(mime_type="image/png", content_id="ab" * 32),
    )


def test_a_line_without_an_id_is_given_the_same_one_each_time() -> None:
    """An id that is missing follows from what the line says, not from chance."""
    line = f'{{"role":"user","timestamp":"{MOMENT}","content":[{{"type":"text","text":"%s"}}]}}'

    first, again, other = (decode_canister(line % text) for text in ("a", "a", "b"))

    assert first == again == decode_canisters((line % "a").encode())[0]
    assert first.id != other.id
    assert len(first.id) == 16
    assert read_tree(json.loads(line % "a"), AnyCanister) == first


def test_bytes_without_a_name_are_named_on_reading() -> None:
    """A line by hand may hold the data alone."""
    content = '{"type":"image","mime_type":"image/png","data":"cGljdHVyZQ=="}'
    line = f'{{"role":"user","timestamp":"{MOMENT}","content":[{content}]}}'

    (image,) = decode_canister(line).content

    assert image == ImageContent(mime_type="image/png", data=b"picture")


def test_empty_lines_are_skipped() -> None:
    """Blank lines, and a last line without a newline, do no harm."""
    canister = UserCanister("hi")
    line = encode_canister(canister)

    assert decode_canisters(b"\n" + line + b"\r\n\n" + line) == [canister, canister]
    assert decode_canisters(b"") == decode_canisters(b"\n \n") == []


def test_two_canisters_in_one_line_are_refused() -> None:
    """A newline that went missing is damage, even where a parser would forgive it."""
    line = encode_canister(UserCanister("hi"))

    with pytest.raises(CodecError, match=r"line 2: \$"):
        decode_canisters(line + b"\n" + line + line + b"\n")


@given(canisters)
def test_the_public_converter_writes_the_same(canister: AnyCanister) -> None:
    """Both ways to write say the same, key by key and in the same order."""
    tree = produce_converter().unstructure(canister)

    assert list(tree) == list(json.loads(encode_canister(canister)))
    assert json.dumps(tree) == json.dumps(json.loads(encode_canister(canister)))
    assert produce_converter().unstructure(canister, AnyCanister) == tree
    assert produce_converter().structure(tree, AnyCanister) == canister


@given(contents)
def test_the_public_converter_reads_single_contents(content: AnyContent) -> None:
    """The public converter serves contents alone, by the union or by the class."""
    converter = produce_converter()
    tree = converter.unstructure(content)

    assert converter.structure(tree, AnyContent) == content
    assert converter.structure(tree, type(content)) == content


@st.composite
def mutilated_lines(draw: st.DrawFn) -> bytes:
    """Draws a line of which a place was replaced, removed, or given a strange neighbour."""
    tree = json.loads(encode_canister(draw(canisters)))
    for _ in range(draw(st.integers(1, 2))):
        node: Any = tree
        while True:
            keys = list(node) if isinstance(node, dict) else list(range(len(node)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            deeper = isinstance(node[key], (dict, list)) and node[key]
            if deeper and draw(st.booleans()):
                node = node[key]
                continue
            match draw(st.sampled_from(["replace", "remove", "add"])):
                case "replace":
                    node[key] = draw(json_values | st.sampled_from([True, 1, 1.0, MOMENT, "ours"]))
                case "remove":
                    del node[key]
                case _ if isinstance(node, dict):
                    node[draw(st.sampled_from(["title", "type", "role", "native", "new"]))] = draw(
                        json_values
                    )
            break
    return json.dumps(tree).encode()


def read(line: bytes) -> AnyCanister | CodecError:
    """Reads a line, or says what is wrong with it."""
    try:
        return decode_canister(line)
    except CodecError as error:
        return error


@given(mutilated_lines())
def test_damage_is_refused_with_its_place_or_reads_as_a_constructor_takes_it(line: bytes) -> None:
    """What reads is what the class itself would have made; what does not is explained."""
    found = read(line)

    if isinstance(found, CodecError):
        assert found.path.startswith("$")
        assert found.detail
        assert " - at `" not in found.detail  # the words of msgspec, where nothing else was found
    else:
        assert attrs.evolve(found) == found
        assert read_tree(json.loads(line), AnyCanister) == found


@given(canisters, st.data())
def test_a_torn_line_never_reads(canister: AnyCanister, data: st.DataObject) -> None:
    """A line cut anywhere short of its end is refused with our error."""
    line = encode_canister(canister)
    torn = line[: data.draw(st.integers(0, len(line) - 1))]

    with pytest.raises(CodecError):
        decode_canister(torn)


@pytest.mark.parametrize(
    ("members", "path", "fragments"),
    [
        ("[]", "$", ["an object", "not a list"]),
        ('BASE,"content":[{"type":"txt"}]', "$.content[0].type", ["'text'", "image", "native"]),
        ('BASE,"content":[{"type":7}]', "$.content[0].type", ["known: text"]),
        ('BASE,"content":[{"text":"x"}]', "$.content[0].type", ["missing", "known: text"]),
        ('BASE,"content":[{"type":"text"}]', "$.content[0].text", ["missing"]),
        (
            'BASE,"content":[{"type":"text","txet":""}]',
            "$.content[0].txet",
            ["did you mean 'text'", "mime_type", "a newer vibe-llms"],
        ),
        ('BASE,"content":[{"type":"text","text":1}]', "$.content[0].text", ["must be a text"]),
        ('BASE,"content":"hi"', "$.content", ["must be a list"]),
        ('BASE,"content":[{"type":"image","mime_type":"a/b"}]', "$.content[0].content_id", []),
        (
            'BASE,"content":[{"type":"image","mime_type":"a/b","data":"?"}]',
            "$.content[0].data",
            ["base64"],
        ),
        ('BASE,"is_error":1', "$.is_error", ["must be true or false"]),
        ('BASE,"owner":"their"', "$.owner", ["known: ours, vendor"]),
        ('BASE,"titel":"x"', "$.titel", ["field 'titel'", "a newer vibe-llms"]),
        (
            'BASE,"origin":{"provider":"p","model":"m","usage":{"input_tokens":1.0}}',
            "$.origin.usage.input_tokens",
            ["must be an integer"],
        ),
        (
            'BASE,"origin":{"provider":"p","model":"m","usage":{"input_tokens":true}}',
            "$.origin.usage.input_tokens",
            ["must be an integer, not true or false"],
        ),
        ('"invocation_id":"1"', "$.timestamp", ["missing"]),
        ('"invocation_id":"1","timestamp":"2025-01-01T00:00:00"', "$.timestamp", ["no time zone"]),
        ('"invocation_id":"1","timestamp":"yesterday"', "$.timestamp", ["rfc3339"]),
        ('"invocation_id":"1","timestamp":"0001-01-01T00:00:00+09:00"', "$.timestamp", []),
        (f'"timestamp":"{MOMENT}"', "$.invocation_id", ["missing"]),
    ],
)
def test_a_mistake_is_named_with_its_path(members: str, path: str, fragments: list[str]) -> None:
    """The error says where, what is wrong, and which words would have been right."""
    base = f'"timestamp":"{MOMENT}","invocation_id":"1"'
    line = members if members == "[]" else f'{{"role":"result",{members}}}'.replace("BASE", base)

    with pytest.raises(CodecError) as caught:
        decode_canister(line)

    assert caught.value.path == path
    for fragment in fragments:
        assert fragment in str(caught.value).lower()


def test_an_unknown_role_is_named_with_the_known_ones() -> None:
    """A role that nothing answers to is refused with the six that there are."""
    with pytest.raises(CodecError, match="did you mean 'user'") as caught:
        decode_canister(f'{{"role":"usr","timestamp":"{MOMENT}","content":[]}}')

    assert caught.value.path == "$.role"
    assert caught.value.known[:2] == ("user", "supervisor")


def test_the_line_of_a_mistake_is_counted_from_one() -> None:
    """Blank lines count: an editor shows the same number."""
    good = encode_canister(UserCanister("hi"))

    with pytest.raises(CodecError) as caught:
        decode_canisters(good + b"\n\n" + good + b"\n" + b'{"role":"user"}\n')

    assert caught.value.path == "line 4: $.timestamp"


@pytest.mark.parametrize("line", [b"", b"{", b"\xff", b"nonsense", b"[" * 100_000, '"\ud800"'])
def test_what_is_no_json_is_refused(line: bytes | str) -> None:
    """Broken text, broken encoding and bottomless nesting end in our error."""
    with pytest.raises(CodecError, match="Invalid JSON"):
        decode_canister(line)


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda text: TextualContent(text), "text"),
        (lambda text: UserCanister(text), "text"),
        (lambda text: ReasoningContent(summary=["fine", text]), "summary[1]"),
        (lambda text: Native(protocol="p", data=text), "data"),
        (lambda text: DocumentCanister("a", title=text), "title"),
        (lambda text: InvocationCanister(invocation_id=text, name="n"), "invocation_id"),
        (lambda text: FileContent(mime_type="a/b", data=b"", name=text), "name"),
    ],
)
def test_half_of_a_surrogate_pair_is_refused_where_it_is_given(
    make: Callable[[str], object], path: str
) -> None:
    """A text that UTF-8 cannot carry becomes no canister: what is one can be stored."""
    make("caf\u00e9 \U0001f600")

    for half in ("caf\udce9", "\ud83d", "\ude00\ud83d"):
        with pytest.raises(RequestError, match="lone surrogate") as caught:
            make(half)
        assert caught.value.path == path


def test_a_vendors_words_are_kept_to_the_letter() -> None:
    """Arguments and native data are texts: neither order nor spacing nor numbers change."""
    arguments = '{"b": 1.0, "a": 10000000000000000000000000, "b": 2 }'
    canister = InvocationCanister(
        invocation_id="1", name="n", arguments=arguments, native=Native(protocol="p", data='{"x": ')
    )

    again = decode_canister(encode_canister(canister))

    assert isinstance(again, InvocationCanister)
    assert again.arguments == arguments
    assert again.native == canister.native


def test_absent_and_null_read_alike() -> None:
    """What may be left out may also be null, where null is what leaving out means."""
    absent = f'{{"role":"assistant","id":"a","timestamp":"{MOMENT}"}}'
    null = f'{{"role":"assistant","id":"a","timestamp":"{MOMENT}","origin":null,"native":null}}'

    assert decode_canister(absent) == decode_canister(null)
    assert isinstance(decode_canister(absent), AssistantCanister)
    assert not isinstance(decode_canister(absent), ResultCanister)


def test_reading_and_writing_load_nothing_that_only_mistakes_need() -> None:
    """A process that lists conversations pays neither for the public converter nor for more."""
    program = """
import sys
import vibe_llms.messages.codec
assert not {"msgspec", "cattrs"} & sys.modules.keys()
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.codec.envelopes import encode_request
from vibe_llms.messages.codec.canister_lines import decode_canisters, encode_canister
canister = UserCanister("hi")
assert decode_canisters(encode_canister(canister)) == [canister]
assert not {"cattrs", "jsonschema", "asyncio", "difflib"} & sys.modules.keys()
"""

    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_was_written_when_a_signature_was_called_seal_is_read() -> None:
    """In a line alone and among others; a second reading finds today's word."""
    canister = AssistantCanister((ReasoningContent(text="Hm.", signature="c2VhbA=="),))
    line = encode_canister(canister)
    older = line.replace(b'"signature"', b'"seal"')
    assert older != line
    assert decode_canister(older) == canister
    assert decode_canisters(line + b"\n" + older) == [canister, canister]
    with pytest.raises(CodecError, match=r"line 2: \$.content\[0\]"):
        decode_canisters(line + b"\n" + older.replace(b'"c2VhbA=="', b"3"))

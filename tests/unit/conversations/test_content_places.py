"""Where content goes that does not lie in its database: URLs, keys, and what servers say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from traceback import format_exception
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.configuration.definitions import STORE
from vibe_llms.conversations.stores import objects
from vibe_llms.conversations.stores.object_keys import find_access_key
from vibe_llms.conversations.stores.objects import ObjectPlace, locate
from vibe_llms.conversations.stores.places import produce_place, split_content
from vibe_llms.exceptions import ConfigurationError, CorruptionError, StoreError
from vibe_llms.messages.contents import compute_content_id
from vibe_llms.testing.clocks import HurriedClock
from vibe_llms.wire.exchanges import WireRequest
from vibe_llms.wire.memory import MemoryAnswer, MemoryTransport

ADDRESS = "s3+https://objects.test/bucket/some where"
DATA = b"\x89PNG"
ID = compute_content_id(DATA)


class Service:
    """Answers in turn, and remembers what it was asked."""

    def __init__(self, answers: Sequence[MemoryAnswer]) -> None:
        self.answers = list(answers)
        self.asked: list[WireRequest] = []

    async def answer(self, request: WireRequest) -> MemoryAnswer:
        self.asked.append(request)
        return self.answers.pop(0)


def produce(*answers: MemoryAnswer) -> tuple[ObjectPlace, Service]:
    service = Service(answers)
    place = ObjectPlace(ADDRESS, locate(ADDRESS), HurriedClock(), MemoryTransport(service.answer))
    return place, service


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A key, and no other of this machine's."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("AWS_SHARED_CREDENTIALS_FILE", raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a/secret")


def test_what_may_succeed_later_is_asked_again() -> None:
    """By the one policy there is; each time it is signed anew, under its hash."""
    place, service = produce(MemoryAnswer(status=503), MemoryAnswer(status=500), MemoryAnswer())

    place.put(ID, DATA, mime_type="image/png", name=None)

    assert [each.method for each in service.asked] == ["PUT"] * 3
    assert service.asked[0].url == f"https://objects.test/bucket/some%20where/{ID}"
    assert service.asked[0].headers["x-amz-content-sha256"] == ID


@pytest.mark.parametrize("status", [400, 403, 404])
def test_what_was_not_taken_is_an_error(status: int) -> None:
    """Nothing is acknowledged that the server has not, and nothing refused is sent again."""
    place, service = produce(MemoryAnswer(status=status))

    with pytest.raises(StoreError, match=r"s3\+https://objects\.test/bucket"):
        place.put(ID, DATA, mime_type="image/png", name=None)

    assert len(service.asked) == 1


def test_an_error_is_told_in_one_line() -> None:
    """With the server's own word for it, and what to do."""
    said = b"<Error><Code>AccessDenied</Code><Message>Not\n you\x07</Message></Error>"
    place, _ = produce(MemoryAnswer(status=403, chunks=[said]))

    with pytest.raises(StoreError) as caught:
        place.read(ID)

    text = str(caught.value)
    assert "status 403, AccessDenied: Not you?. Let this key read" in text
    assert "\n" not in text


def test_a_server_that_repeats_what_it_was_sent_tells_no_secret(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also of keys that no variable holds: an error goes into logs, and to others."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        "[default]\naws_access_key_id = one\naws_secret_access_key = canary-of-the-key\n"
        "aws_session_token = canary-of-the-session\n"
    )
    said = b"<Code>Bad</Code><Message>canary-of-the-session and canary-of-the-key</Message>"
    place, _ = produce(MemoryAnswer(status=400, chunks=[said]))

    with pytest.raises(StoreError, match="status 400, Bad") as caught:
        place.read(ID)

    assert "canary" not in "".join(format_exception(caught.value))


def test_bytes_that_are_others_are_refused() -> None:
    """Whatever the server says of them."""
    place, _ = produce(MemoryAnswer(chunks=[b"others"]))

    with pytest.raises(CorruptionError, match="not those which the id names"):
        place.read(ID)


def test_what_is_too_large_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """One content is sent as a whole."""
    monkeypatch.setattr(objects, "CONTENT_BYTES", 3)
    place, service = produce()

    with pytest.raises(StoreError, match=r"has 4 bytes; .* takes 3 at most"):
        place.put(ID, DATA, mime_type="image/png", name=None)
    assert not service.asked


@pytest.mark.parametrize(
    ("address", "base"),
    [
        ("s3://bucket", "https://bucket.s3.us-east-1.amazonaws.com/"),
        ("s3://bucket/a/b/", "https://bucket.s3.us-east-1.amazonaws.com/a/b/"),
        ("s3://a.bucket/x", "https://s3.us-east-1.amazonaws.com/a.bucket/x/"),
        ("s3+http://host:9000/bucket/x y", "http://host:9000/bucket/x%20y/"),
    ],
)
def test_a_url_says_where_objects_are(address: str, base: str) -> None:
    """At Amazon by the name of the bucket, elsewhere below the host."""
    assert locate(address).base == base


@pytest.mark.parametrize(
    "address",
    [
        *("", "s3://", "s3://B", "ftp://x/y", "file://", "file:///", "file://host/x"),
        *("s3+https://h", "s3+http://[::1/bucket", "s3+http://h:99999/bucket", "file:///x\n"),
        *("file:///x?hidden", "file:///x#hidden", "s3://bucket/x#hidden", "s3://bucket?hidden"),
        *("s3://bucket/../other", "s3://bucket/%2e%2e/other", "s3://bucket/./x"),
    ],
)
def test_other_urls_are_refused(address: str) -> None:
    """With what may stand there."""
    with pytest.raises(ConfigurationError, match=r"names no (place|bucket) for content") as caught:
        produce_place(address)
    assert "hidden" not in str(caught.value)


def test_keys_have_no_place_in_a_url() -> None:
    """Settings are shown, and so are URLs; the error shows nothing of it."""
    with pytest.raises(ConfigurationError) as caught:
        produce_place("s3://AKIA1:hidden@bucket/x")
    assert "hidden" not in str(caught.value)
    assert STORE.is_right("postgresql://u@h/d?content=s3://bucket/x")
    assert not STORE.is_right("postgresql://u@h/d?content=s3://AKIA1:hidden@bucket/x")


def test_a_folder_is_not_made(tmp_path: Path) -> None:
    """Where nothing is mounted it would be this machine's alone."""
    place = produce_place(f"file://{tmp_path}/shared")

    with pytest.raises(StoreError, match="does not exist"):
        place.put(ID, DATA, mime_type="image/png", name=None)

    (tmp_path / "shared").mkdir()
    place.put(ID, DATA, mime_type="image/png", name=None)
    assert place.read(ID) == DATA


def test_a_key_is_found_as_amazons_tools_find_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In the environment, else in a file, else not at all."""
    found = find_access_key()
    assert found is not None
    assert found.secret.reveal() == "a/secret"
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert find_access_key() is None
    file = tmp_path / ".aws" / "credentials"
    file.parent.mkdir()
    file.write_text(
        "[default]\naws_access_key_id = one\naws_secret_access_key = two%\n"
        "[other]\naws_access_key_id = three\naws_secret_access_key = four\n"
        "aws_session_token = five\n"
    )
    found = find_access_key()
    assert found is not None
    assert (found.identity, found.secret.reveal(), found.token) == ("one", "two%", None)
    monkeypatch.setenv("AWS_PROFILE", "other")
    found = find_access_key()
    assert found is not None
    assert found.token is not None
    assert (found.identity, found.token.reveal()) == ("three", "five")
    file.write_text("aws_secret_access_key = two")
    with pytest.raises(ConfigurationError) as caught:
        find_access_key()
    assert "two" not in str(caught.value)


@given(
    st.text(min_size=1, max_size=12),
    st.lists(st.sampled_from(["sslmode=require", "options=-c%20x"])),
)
def test_a_place_is_taken_out_of_the_url_of_a_database(address: str, rest: list[str]) -> None:
    """Whatever stands in it; what else the URL says stays."""
    whole = "&".join([*rest[:1], f"content={quote(address)}", *rest[1:]])

    url, found = split_content(f"postgresql://u@h/d?{whole}")

    assert found == address
    assert url == "postgresql://u@h/d" + ("?" + "&".join(rest) if rest else "")

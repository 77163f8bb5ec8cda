"""Content outside its database: URLs of folders and buckets."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.configuration.definitions import STORE
from vibe_llms.conversations.stores.content_backends import MARKER
from vibe_llms.conversations.stores.content_urls import produce_backend, split_content_address
from vibe_llms.conversations.stores.object_stores import locate
from vibe_llms.exceptions import ConfigurationError, StoreError
from vibe_llms.logs.disk import Disk
from vibe_llms.messages.contents import compute_content_id

DATA = b"\x89PNG"
ID = compute_content_id(DATA)


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("s3://bucket", ("s3", "", "", "bucket", "")),
        ("s3://a.bucket/a/b/", ("s3", "", "", "a.bucket", "a/b")),
        ("s3+http://host:9000/bucket/x%20y", ("s3", "http://host:9000", "", "bucket", "x y")),
        ("gs://my_bucket/x", ("gs", "", "", "my_bucket", "x")),
        ("gs+https://host/bucket", ("gs", "https://host", "", "bucket", "")),
        ("az://account/bucket/x/y", ("az", "", "account", "bucket", "x/y")),
        ("az+http://host:1/account/bucket", ("az", "http://host:1", "account", "bucket", "")),
    ],
)
def test_a_url_says_where_objects_are(address: str, found: tuple[str, ...]) -> None:
    """Of the vendor's own service, or of another host with its protocol."""
    located = locate(address)
    assert found == (
        located.cloud,
        located.endpoint,
        located.account,
        located.bucket,
        located.prefix,
    )


@pytest.mark.parametrize(
    "address",
    [
        *("", "s3://", "s3://B", "ftp://x/y", "file://", "file:///", "file://host/x"),
        *("s3+https://h", "s3+http://[::1/bucket", "s3+http://h:99999/bucket", "file:///x\n"),
        *("file:///x?hidden", "file:///x#hidden", "s3://bucket/x#hidden", "s3://bucket?hidden"),
        *("s3://bucket/../other", "s3://bucket/%2e%2e/other", "s3://bucket/./x"),
        *("gs://", "az://account", "az://account/", "gs+https://h", "az+http://h/account"),
        *("s3://bucket:1/x", "s3+ftp://h/bucket"),
    ],
)
def test_other_urls_are_refused(address: str) -> None:
    """With what may stand there."""
    with pytest.raises(
        ConfigurationError,
        match=r"is not the URL of a content backend\. Use file:///|has no bucket name",
    ) as caught:
        produce_backend(address)
    assert "hidden" not in str(caught.value)


def test_keys_have_no_place_in_a_url() -> None:
    """Settings are shown, and so are URLs; the error shows nothing of it."""
    with pytest.raises(ConfigurationError) as caught:
        produce_backend("s3://AKIA1:hidden@bucket/x")
    assert "hidden" not in str(caught.value)
    assert STORE.is_valid("postgresql://u@h/d?content=az://account/container")
    assert STORE.is_valid("postgresql://u@h/d?content=s3://bucket/x")
    assert not STORE.is_valid("postgresql://u@h/d?content=s3://AKIA1:hidden@bucket/x")


def test_an_empty_step_is_refused() -> None:
    """Clients of buckets leave it out, so that two URLs would be one place."""
    with pytest.raises(ConfigurationError, match="consecutive slashes"):
        produce_backend("s3://bucket/a//b")


def test_a_folder_is_not_made(tmp_path: Path) -> None:
    """Where nothing is mounted it would be this machine's alone."""
    place = produce_backend(f"file://{tmp_path}/shared")

    with pytest.raises(StoreError, match="does not exist"):
        place.put(ID, DATA, mime_type="image/png", name=None)

    (tmp_path / "shared").mkdir()
    place.put(ID, DATA, mime_type="image/png", name=None)
    assert place.read(ID) == DATA


@given(
    st.text(min_size=1, max_size=12),
    st.lists(st.sampled_from(["sslmode=require", "options=-c%20x"])),
)
def test_a_place_is_taken_out_of_the_url_of_a_database(address: str, rest: list[str]) -> None:
    """Whatever stands in it; what else the URL says stays."""
    whole = "&".join([*rest[:1], f"content={quote(address)}", *rest[1:]])

    url, found = split_content_address(f"postgresql://u@h/d?{whole}")

    assert found == address
    assert url == "postgresql://u@h/d" + ("?" + "&".join(rest) if rest else "")


def test_all_who_claim_a_folder_at_once_read_the_same_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody takes the unfinished mark of another for an empty one."""
    address = f"file://{tmp_path}"
    opened, goes = threading.Event(), threading.Event()
    write = Disk.write

    def write_late(self: Disk, descriptor: int, data: bytes) -> None:
        opened.set()
        assert goes.wait(60)
        write(self, descriptor, data)

    monkeypatch.setattr(Disk, "write", write_late)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(produce_backend(address).claim, "me 1")
        assert opened.wait(60)
        second = threads.submit(produce_backend(address).claim, "you 2")
        with suppress(TimeoutError):  # it waits for the first, or else has read too early
            second.result(0.2)
        goes.set()

        assert (first.result(60), second.result(60)) == ("me 1", "me 1")


def test_a_mark_that_a_killed_process_did_not_write_is_written_anew(tmp_path: Path) -> None:
    (tmp_path / MARKER).touch()
    place = produce_backend(f"file://{tmp_path}")
    assert place.claim("me 1") == "me 1"
    assert place.claim("you 2") == "me 1"

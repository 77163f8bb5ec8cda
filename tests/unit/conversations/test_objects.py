"""Content in buckets of Amazon, Google and Azure: requests, keys, errors."""

from __future__ import annotations

import base64
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from traceback import format_exception

import pytest

from support.stores.bucket_servers import (
    BUCKET,
    Bucket,
    BucketAnswer,
    BucketRequest,
    ScriptedBucket,
    served,
)
from vibe_llms.conversations.stores import object_stores, objects
from vibe_llms.conversations.stores.object_stores import locate
from vibe_llms.conversations.stores.objects import ObjectBackend
from vibe_llms.exceptions import (
    ConfigurationError,
    CorruptionError,
    DependencyError,
    StoreError,
    StoreUnavailableError,
)
from vibe_llms.messages.contents import compute_content_id

pytestmark = pytest.mark.objects

DATA = b"\x89PNG"
ID = compute_content_id(DATA)
WRITTEN = BucketAnswer(headers={"etag": '"1"'})


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with a key in its environment, which waits little."""
    for name in [each for each in os.environ if each.startswith(("AWS_", "AZURE_", "GOOGLE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a/secret")
    monkeypatch.setattr(object_stores, "FIRST_WAIT", timedelta(milliseconds=1))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Servers of a test, which end with it."""
    with ExitStack() as stack:
        yield stack


def open_backend(url: str, scheme: str = "s3", steps: str = "bucket/some%20where") -> ObjectBackend:
    address = f"{scheme}+{url}/{steps}"
    return ObjectBackend(address, locate(address))


def produce(stack: ExitStack, *answers: BucketAnswer) -> tuple[ObjectBackend, ScriptedBucket]:
    service = ScriptedBucket(answers)
    return open_backend(stack.enter_context(served(service.answer))), service


def test_what_may_succeed_later_is_asked_again(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three times in all, under the hash of the content, which the server checks."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")  # is of s3:// alone
    place, service = produce(stack, BucketAnswer(503), BucketAnswer(500), WRITTEN)

    place.put(ID, DATA, mime_type="image/png", name=None)

    assert [each.method for each in service.requests] == ["PUT"] * 3
    assert service.requests[0].path == f"/bucket/some where/{ID}"
    assert service.requests[0].headers["x-amz-content-sha256"] == ID
    assert service.requests[0].headers["content-type"] == "image/png"


def test_a_server_that_stays_away_is_an_outage(stack: ExitStack) -> None:
    """Callers may try again later; the error says so by its class."""
    said = b"<Error><Code>SlowDown</Code><Message>Later.</Message></Error>"
    place, service = produce(stack, *[BucketAnswer(503, said)] * 3)

    with pytest.raises(StoreUnavailableError, match="status 503, SlowDown: Later"):
        place.read(ID)
    assert len(service.requests) == 3
    with pytest.raises(StoreUnavailableError, match="error sending request"):
        open_backend("http://127.0.0.1:1").read(ID)


@pytest.mark.parametrize("status", [400, 403, 404])
def test_what_was_not_taken_is_an_error(stack: ExitStack, status: int) -> None:
    """Nothing is acknowledged that the server has not, and nothing refused is sent again."""
    place, service = produce(stack, BucketAnswer(status))

    with pytest.raises(StoreError, match=r"s3\+http://127.0.0.1:\d+/bucket") as caught:
        place.put(ID, DATA, mime_type="image/png", name=None)

    assert not isinstance(caught.value, StoreUnavailableError)
    assert len(service.requests) == 1


def test_a_bucket_of_another_region_is_told_with_the_remedy(stack: ExitStack) -> None:
    """Amazon redirects to nowhere then; to try again later would not help."""
    place, service = produce(stack, BucketAnswer(301))

    with pytest.raises(StoreError, match="Set AWS_REGION to the region") as caught:
        place.read(ID)
    assert not isinstance(caught.value, StoreUnavailableError)
    assert len(service.requests) == 1


def test_an_error_is_told_in_one_line(stack: ExitStack) -> None:
    """With the server's own word for it, and what to do."""
    said = b"<Error><Code>AccessDenied</Code><Message>Not\n you\x07</Message></Error>"
    place, _ = produce(stack, BucketAnswer(403, said))

    with pytest.raises(StoreError) as caught:
        place.read(ID)

    text = str(caught.value)
    assert "status 403, AccessDenied: Not you?. Let this key read, write, list" in text
    assert "\n" not in text


def test_a_server_that_repeats_what_it_was_sent_tells_no_secret(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also of keys that no variable holds: an error goes into logs, and to others."""
    write_key(monkeypatch, tmp_path, "canary-of-the-key", "canary-of-the-session")
    said = b"<Code>Bad</Code><Message>canary-of-the-session and canary-of-the-key</Message>"
    place, service = produce(stack, BucketAnswer(400, said))

    with pytest.raises(StoreError, match="status 400, Bad") as caught:
        place.read(ID)

    assert service.requests[0].headers["x-amz-security-token"] == "canary-of-the-session"
    assert "canary" not in "".join(format_exception(caught.value))
    assert "canary" not in repr(place)


def test_a_shared_signature_of_azure_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a part of each URL, and obstore quotes URLs in its errors."""
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=2023&sig=canary%3D")
    with pytest.raises(StoreError, match="error sending request") as caught:
        open_backend("http://127.0.0.1:1", "az", "account/bucket").read(ID)

    assert "canary" not in "".join(format_exception(caught.value))


def forget_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave no key in the environment."""
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(variable, raising=False)


def write_key(
    monkeypatch: pytest.MonkeyPatch, home: Path, secret: str, token: str, name: str = "default"
) -> None:
    """Write a key into Amazon's file; the environment has none."""
    forget_key(monkeypatch)
    (home / ".aws").mkdir(exist_ok=True)
    with (home / ".aws" / "credentials").open("a") as file:
        file.write(
            f"[{name}]\naws_access_key_id = key-{name}\naws_secret_access_key = {secret}\n"
            f"aws_session_token = {token}\n"
        )


def test_content_is_removed_by_a_plain_request(stack: ExitStack) -> None:
    """Not every server of the protocol knows lists of what to delete."""
    place, service = produce(stack, BucketAnswer(204))

    place.remove(ID)

    assert [(each.method, each.path) for each in service.requests] == [
        ("DELETE", f"/bucket/some where/{ID}")
    ]


def test_bytes_that_are_others_are_refused(stack: ExitStack) -> None:
    """Whatever the server says of them."""
    place, _ = produce(stack, BucketAnswer(200, b"others"))

    with pytest.raises(CorruptionError, match="do not match the id"):
        place.read(ID)


def test_what_is_too_large_is_neither_sent_nor_received(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One content is held in memory as a whole."""
    monkeypatch.setattr(objects, "CONTENT_BYTES", 3)
    place, service = produce(stack, BucketAnswer(200, DATA))

    with pytest.raises(StoreError, match=r"has 4 bytes; .* at most 3"):
        place.put(ID, DATA, mime_type="image/png", name=None)
    assert not service.requests
    with pytest.raises(StoreError, match=r"has 4 bytes; .* at most 3"):
        place.read(ID)


def read_identity(asked: BucketRequest) -> str:
    """Return the name of the key that signed a request to S3."""
    return asked.headers["authorization"].partition("Credential=")[2].partition("/")[0]


def test_a_key_is_found_as_amazons_tools_find_it(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In the environment, else in a file; one that was replaced counts at once."""
    place, service = produce(stack, *[BucketAnswer(200, DATA)] * 3)

    place.read(ID)
    write_key(monkeypatch, tmp_path, "two%", "")
    write_key(monkeypatch, tmp_path, "four", "five", "other")
    place.read(ID)
    monkeypatch.setenv("AWS_PROFILE", "other")
    place.read(ID)

    assert list(map(read_identity, service.requests)) == [
        "AKIAIOSFODNN7EXAMPLE",
        "key-default",
        "key-other",
    ]
    assert service.requests[2].headers["x-amz-security-token"] == "five"
    (tmp_path / ".aws" / "credentials").write_text("aws_secret_access_key = two")
    with pytest.raises(ConfigurationError) as caught:
        place.read(ID)
    assert "two" not in str(caught.value)


def test_a_key_that_no_header_can_carry_is_refused(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """obstore would panic; the blanks around it are left out."""
    place, service = produce(stack, BucketAnswer(200, DATA))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA1\n")
    place.read(ID)
    assert read_identity(service.requests[0]) == "AKIA1"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA\n1")
    with pytest.raises(ConfigurationError, match="AWS_ACCESS_KEY_ID"):
        place.read(ID)


def lend(name: str) -> BucketAnswer:
    """Answer as those who lend keys do."""
    until = (datetime.now(UTC) + timedelta(hours=6)).strftime("%Y-%m-%dT%H:%M:%SZ")
    said = f'{{"AccessKeyId": "{name}", "SecretAccessKey": "s", "Token": "t", "Code": "Success",'
    return BucketAnswer(200, f'{said} "Expiration": "{until}"}}'.encode())


def test_the_role_of_a_machine_lends_a_key(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for once, and kept until it ends."""
    forget_key(monkeypatch)
    given = [BucketAnswer(200, b"ticket"), BucketAnswer(200, b"role"), lend("lent")]
    lender = ScriptedBucket(given)
    url = stack.enter_context(served(lender.answer))
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", url)
    place, service = produce(stack, *[BucketAnswer(200, DATA)] * 2)

    place.read(ID)
    place.read(ID)

    assert [read_identity(each) for each in service.requests] == ["lent"] * 2
    assert service.requests[0].headers["x-amz-security-token"] == "t"
    assert [each.headers.get("x-aws-ec2-metadata-token") for each in lender.requests] == [
        None,
        "ticket",
        "ticket",
    ]


def test_the_role_of_a_container_lends_a_key(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With the token in a file; what obstore would ignore, or send openly, is refused."""
    forget_key(monkeypatch)
    lender = ScriptedBucket([lend("lent")])
    url = stack.enter_context(served(lender.answer))
    place, service = produce(stack, BucketAnswer(200, DATA))
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{url}/key")
    with pytest.raises(ConfigurationError, match="AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
        place.read(ID)
    (tmp_path / "token").write_text("ticket")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))

    place.read(ID)

    assert lender.requests[0].headers["authorization"] == "ticket"
    assert read_identity(service.requests[0]) == "lent"
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1.evil.test/key")
    with pytest.raises(ConfigurationError, match="only over HTTPS"):
        place.read(ID)


def test_a_panic_of_obstore_is_an_error_like_others(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its class is none that programs catch."""
    forget_key(monkeypatch)
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/key")
    (tmp_path / "token").write_text("broken\ncanary")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))
    place, _ = produce(stack)

    with pytest.raises(StoreError, match="check the keys") as caught:
        place.read(ID)
    assert "canary" not in "".join(format_exception(caught.value))


def test_no_key_at_all_is_told_before_anything_is_sent(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the machine may not be asked for a role."""
    forget_key(monkeypatch)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    place, service = produce(stack)

    with pytest.raises(StoreError, match=r"bucket is missing\. Set AWS_ACCESS_KEY_ID"):
        place.read(ID)
    assert not service.requests


def test_settings_that_obstore_refuses_are_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the key."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "canary, which is not base64")

    with pytest.raises(StoreError, match="Invalid Access Key") as caught:
        open_backend("http://127.0.0.1:1", "az", "account/bucket").read(ID)

    assert "canary" not in "".join(format_exception(caught.value))
    assert "\n" not in str(caught.value)


def test_a_missing_package_is_told_with_the_command_that_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It belongs to an extra."""
    monkeypatch.setitem(sys.modules, "obstore.store", None)

    with pytest.raises(DependencyError, match=r"needs obstore, .* Install it: .*obstore"):
        open_backend("http://127.0.0.1:1").read(ID)


def test_an_interrupt_ends_the_wait_for_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """obstore looks for no signals: it would wait for this silent server to the time limit."""
    monkeypatch.setattr(object_stores, "REQUEST_SECONDS", 2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        connections = []

        def interrupt() -> None:
            connections.append(server.accept()[0])
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            open_backend(f"http://127.0.0.1:{server.getsockname()[1]}").read(ID)
        thread.join()
        (connection,) = connections
        with connection:
            assert connection.recv(10_000).startswith(b"GET ")
            with pytest.raises(BlockingIOError):  # the request still waits behind
                connection.recv(1, socket.MSG_DONTWAIT)


@pytest.mark.parametrize("scheme", ["gs", "az"])
def test_google_and_azure_keep_the_promises(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """As S3 does in the integration tests: put, read, mark, list by pages, remove."""
    bucket = Bucket("account" if scheme == "az" else "")
    url = stack.enter_context(served(bucket.answer))
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", base64.b64encode(b"secret").decode())
    monkeypatch.setenv("GCE_METADATA_HOST", url.removeprefix("http://"))
    steps = f"{bucket.account}/{BUCKET}/some%20where".strip("/")
    place = open_backend(url, scheme, steps)
    bucket.objects[f"some where/{compute_content_id(b'old')}"] = (
        b"old",
        datetime(2020, 1, 1, tzinfo=UTC),
    )

    assert not list(place.survey())
    assert place.read_mark() == ""
    assert place.claim("me 1") == "me 1"
    assert place.claim("you 2") == "me 1"
    contents = (DATA, b"one", b"two", b"three")
    for data in (*contents, DATA):
        place.put(compute_content_id(data), data, mime_type="image/png", name=None)
    assert bucket.kinds[f"some where/{ID}"] == "image/png"
    assert place.has(ID, len(DATA))
    assert not place.has(ID, 5)
    assert not place.has(compute_content_id(b"none"), 4)
    assert place.read(ID) == DATA
    bucket.objects["some where/strange"] = (b"x", datetime.now(UTC))
    bucket.objects["elsewhere"] = (b"x", datetime.now(UTC))
    bucket.listed = 0
    sizes = {each.content_id: each.size_bytes for each in place.survey()}
    assert sizes == {compute_content_id(each): len(each) for each in contents}
    assert bucket.listed == 4
    place.remove(ID)
    place.remove(ID)
    with pytest.raises(StoreError, match=f"Content {ID} is missing"):
        place.read(ID)


@pytest.mark.parametrize("scheme", ["gs", "az"])
def test_the_first_of_two_marks_counts(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """Both saw none; the server creates the object only once."""
    bucket = Bucket("account" if scheme == "az" else "")
    url = stack.enter_context(served(bucket.answer))
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", base64.b64encode(b"secret").decode())
    monkeypatch.setenv("GCE_METADATA_HOST", url.removeprefix("http://"))
    steps = f"{bucket.account}/{BUCKET}".strip("/")
    first, second = open_backend(url, scheme, steps), open_backend(url, scheme, steps)
    read = ObjectBackend.read_mark

    def read_late(self: ObjectBackend) -> str:
        mark = read(self)
        if self is second and not mark:
            first.claim("first")
        return mark

    monkeypatch.setattr(ObjectBackend, "read_mark", read_late)
    assert second.claim("second") == "first"


@pytest.mark.parametrize("scheme", ["gs", "az"])
def test_a_bucket_that_is_missing_is_told(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """Not as content that is missing."""
    account = "account" if scheme == "az" else ""
    url = stack.enter_context(served(Bucket(account).answer))
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", base64.b64encode(b"secret").decode())
    monkeypatch.setenv("GCE_METADATA_HOST", url.removeprefix("http://"))
    place = open_backend(url, scheme, f"{account}/nothere".strip("/"))

    with pytest.raises(StoreError, match="or name another one"):
        place.put(ID, DATA, mime_type="image/png", name=None)
    with pytest.raises(StoreError, match="or name another one"):
        place.read(ID)

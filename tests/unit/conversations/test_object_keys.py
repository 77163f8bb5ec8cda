"""Keys that the role of a machine is lent, where none is written down."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from vibe_llms.conversations.stores.object_keys import KeyRing
from vibe_llms.exceptions import ConfigurationError, StoreError, TransportError
from vibe_llms.secrets import Secret
from vibe_llms.wire.exchanges import WireRequest
from vibe_llms.wire.memory import MemoryAnswer, MemoryTransport
from vibe_llms.wire.signatures import AccessKey

MACHINE = "http://169.254.169.254/latest"
ROLES = f"{MACHINE}/meta-data/iam/security-credentials/"


class Lender:
    """Says what it has been given to say, by method and URL."""

    def __init__(self) -> None:
        self.said: dict[str, str] = {}
        self.asked: list[WireRequest] = []
        self.lasts = timedelta(hours=6)
        self.given = 0

    def compose_key(self) -> str:
        self.given += 1
        end = datetime.now(UTC) + self.lasts
        told = {"AccessKeyId": f"key-{self.given}", "SecretAccessKey": "s", "Token": "t"}
        return json.dumps({**told, "Expiration": end.strftime("%Y-%m-%dT%H:%M:%SZ")})

    async def answer(self, request: WireRequest) -> MemoryAnswer:
        self.asked.append(request)
        said = self.said.get(f"{request.method} {request.url}")
        if said is None:
            raise TransportError(detail="Nobody is there.")
        return MemoryAnswer(chunks=[(self.compose_key() if said == "KEY" else said).encode()])

    @property
    def ring(self) -> KeyRing:
        transport = MemoryTransport(self.answer)
        return KeyRing(transport, transport)


def reveal(key: AccessKey) -> list[str]:
    assert key.token is not None
    return [key.identity, key.secret.reveal(), key.token.reveal()]


def reveal_text(told: str | Secret) -> str:
    return told.reveal() if isinstance(told, Secret) else told


@pytest.fixture
def lender(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lender:
    """Somebody who lends, on a machine with no key of its own."""
    for name in [each for each in os.environ if each.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return Lender()


async def test_a_machine_is_asked_once_until_shortly_before_its_key_ends(lender: Lender) -> None:
    lender.said = {f"PUT {MACHINE}/api/token": "ticket", f"GET {ROLES}": "ours\n"}
    lender.said[f"GET {ROLES}ours"] = "KEY"
    ring = lender.ring

    assert reveal(await ring.access()) == ["key-1", "s", "t"]
    assert reveal(await ring.access()) == ["key-1", "s", "t"]
    tickets = [each.headers.get("x-aws-ec2-metadata-token") for each in lender.asked]
    assert [each if each is None else reveal_text(each) for each in tickets] == [
        None,
        "ticket",
        "ticket",
    ]

    lender.lasts = timedelta(minutes=4)
    assert reveal(await lender.ring.access())[0] == "key-2"
    ring = lender.ring
    assert [reveal(await ring.access())[0] for _ in range(2)] == ["key-3", "key-4"]


async def test_a_key_that_is_written_down_comes_first(
    lender: Lender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mine")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")

    assert (await lender.ring.access()).identity == "mine"
    assert not lender.asked


async def test_a_container_asks_with_its_token(
    lender: Lender, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By whichever of the two variables its surroundings have set."""
    (tmp_path / "token").write_text("pass\n")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))
    for name, value, url in (
        ("FULL", "http://169.254.170.23/v1/credentials", "http://169.254.170.23/v1/credentials"),
        ("RELATIVE", "/v2/credentials/x", "http://169.254.170.2/v2/credentials/x"),
    ):
        monkeypatch.setenv(f"AWS_CONTAINER_CREDENTIALS_{name}_URI", value)
        lender.said = {f"GET {url}": "KEY"}
        assert reveal(await lender.ring.access())[1] == "s"
        told = lender.asked[-1].headers["authorization"]
        assert not isinstance(told, str)
        assert told.reveal() == "pass"
    monkeypatch.delenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
    for stranger in ("stranger.example", "127.stranger.example"):
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://{stranger}/keys")
        with pytest.raises(ConfigurationError, match=rf"{stranger} is asked .* https alone"):
            await lender.ring.access()


async def test_a_role_is_taken_on_by_the_token_of_a_file(
    lender: Lender, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is read anew each time, as the cluster changes it."""
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/ours")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    with pytest.raises(ConfigurationError, match="token cannot be read"):
        await lender.ring.access()
    (tmp_path / "token").write_text("signed")
    lender.said["POST https://sts.eu-north-1.amazonaws.com/"] = (
        "<A><Credentials><AccessKeyId>one</AccessKeyId><SecretAccessKey>two+/=</SecretAccessKey>"
        "<SessionToken>three&amp;</SessionToken><Expiration>2999-01-01T00:00:00Z</Expiration></A>"
    )
    assert reveal(await lender.ring.access()) == ["one", "two+/=", "three&"]
    asked = parse_qs(lender.asked[-1].body.decode())
    assert asked["WebIdentityToken"] == ["signed"]
    assert asked["RoleArn"] == ["arn:aws:iam::1:role/ours"]


async def test_where_nobody_lends_one_line_says_so(
    lender: Lender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where this is no machine of Amazon's, it says what else there is; nor is a token shown."""
    with pytest.raises(StoreError, match=r"There is no key .* or give this machine a role"):
        await lender.ring.access()
    asked = len(lender.asked)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(StoreError, match="There is no key"):
        await lender.ring.access()
    assert len(lender.asked) == asked
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    lender.said = {f"PUT {MACHINE}/api/token": "ticket", f"GET {ROLES}": "ours"}
    for said, words in (
        ("no", "does not read"),
        ("[]", "does not read"),
        ('{"Code": "Failed", "Message": "Role is gone"}', "Role is gone"),
    ):
        lender.said[f"GET {ROLES}ours"] = said
        with pytest.raises(StoreError, match=words) as caught:
            await lender.ring.access()
        assert "ticket" not in str(caught.value)


@pytest.mark.parametrize("odd", ["bytes", "pipe"])
async def test_a_file_that_holds_no_token_is_named_and_not_shown(
    lender: Lender, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, odd: str
) -> None:
    """Nor waited for, where it is a pipe that nobody writes to."""
    path = tmp_path / "token"
    path.write_bytes(b"secret\xff") if odd == "bytes" else os.mkfifo(path)
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(path))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/store")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))

    with pytest.raises(ConfigurationError, match="AWS_WEB_IDENTITY_TOKEN_FILE") as caught:
        await lender.ring.access()

    assert caught.value.__cause__ is None
    assert lender.asked == []
    if odd == "pipe":
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(path))
        with pytest.raises(ConfigurationError, match="cannot be read as credentials"):
            await lender.ring.access()

"""Requests are signed as Amazon's own examples are."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Final

import pytest

from vibe_llms.secrets import Secret
from vibe_llms.wire.signatures import AccessKey, sign

KEY: Final = AccessKey(
    identity="AKIAIOSFODNN7EXAMPLE", secret=Secret("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
)
URL: Final = "https://examplebucket.s3.amazonaws.com"
MOMENT: Final = datetime(2013, 5, 24, tzinfo=UTC)
STORED: Final = {
    "Date": "Fri, 24 May 2013 00:00:00 GMT",
    "x-amz-storage-class": "REDUCED_REDUNDANCY",
}


def sign_example(method: str, path: str, headers: dict[str, str], body: bytes) -> str:
    digest = hashlib.sha256(body).hexdigest()
    signed = sign(
        method, f"{URL}{path}", headers, KEY, digest=digest, region="us-east-1", moment=MOMENT
    )
    said = signed["authorization"]
    assert isinstance(said, Secret)
    return said.reveal()


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "signature"),
    [
        (
            "GET",
            "/test.txt",
            {"Range": "bytes=0-9"},
            b"",
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            "PUT",
            "/test%24file.text",
            STORED,
            b"Welcome to Amazon S3.",
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        (
            "GET",
            "/?lifecycle",
            {},
            b"",
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        ),
        (
            "GET",
            "/?prefix=J&max-keys=2",
            {},
            b"",
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ],
)
def test_the_examples_of_the_protocol_are_signed_as_they_stand_there(
    method: str, path: str, headers: dict[str, str], body: bytes, signature: str
) -> None:
    """Those of the page "Transferring Payload in a Single Chunk"."""
    said = sign_example(method, path, headers, body)

    assert said.endswith(f",Signature={signature}")
    assert "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request" in said


def test_a_key_that_holds_for_a_while_brings_its_token() -> None:
    """It is signed, and hidden like the signature itself."""
    key = AccessKey(identity="a", secret=Secret("b"), token=Secret("c"))

    signed = sign("GET", f"{URL}/x", {}, key, digest="0" * 64, region="r", moment=MOMENT)

    assert "secret" not in str(signed).lower().replace("secret('********')", "")
    token, said = signed["x-amz-security-token"], signed["authorization"]
    assert isinstance(token, Secret)
    assert isinstance(said, Secret)
    assert token.reveal() == "c"
    assert "x-amz-security-token" in said.reveal()

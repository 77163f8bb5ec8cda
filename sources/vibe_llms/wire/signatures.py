"""Signatures of requests, as Amazon S3 and what is like it want them: AWS Signature Version 4.

Source: https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html, read
2026-11-26; the examples that stand there are among the tests.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from typing import Final
from urllib.parse import parse_qsl, quote, urlsplit

from vibe_llms.secrets import Secret
from vibe_llms.values import frozen
from vibe_llms.wire.http.heads import parse_target

_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_SERVICE: Final = "s3"
_END: Final = "aws4_request"


@frozen(kw_only=True)
class AccessKey:
    """Who asks.

    Attributes:
        identity: The name of the key, which is no secret.
        secret: What signs.
        token: Of a key that holds for a while only.
    """

    identity: str
    secret: Secret
    token: Secret | None = None


def sign(
    method: str,
    url: str,
    headers: Mapping[str, str],
    key: AccessKey,
    *,
    digest: str,
    region: str,
    moment: datetime,
) -> dict[str, str | Secret]:
    """Returns the headers of a request with those that say who asks, and that nothing was changed.

    Args:
        url: Its path is quoted as it is sent.
        headers: All of these are signed; what a transport adds is not.
        digest: SHA-256 of the body, in hexadecimal digits. A server refuses another body.
        region: Where the server says that it is.
        moment: In UTC; a server refuses one that is a quarter of an hour off.
    """
    day, second = moment.strftime("%Y%m%d"), moment.strftime("%Y%m%dT%H%M%SZ")
    sent: dict[str, str | Secret] = {
        **headers,
        "x-amz-content-sha256": digest,
        "x-amz-date": second,
        **({"x-amz-security-token": key.token} if key.token else {}),
    }
    signed = {name.lower(): _reveal(value).strip() for name, value in sent.items()}
    signed["host"] = parse_target(url).authority
    names = ";".join(sorted(signed))
    lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
    parts = urlsplit(url)
    asked = f"{method}\n{parts.path or '/'}\n{_order(parts.query)}\n{lines}\n{names}\n{digest}"
    scope = f"{day}/{region}/{_SERVICE}/{_END}"
    said = f"{_ALGORITHM}\n{second}\n{scope}\n{hashlib.sha256(asked.encode()).hexdigest()}"
    signing = f"AWS4{key.secret.reveal()}".encode()
    for word in (day, region, _SERVICE, _END):
        signing = _digest(signing, word)
    signature = _digest(signing, said).hex()
    words = f"Credential={key.identity}/{scope},SignedHeaders={names},Signature={signature}"
    return {**sent, "authorization": Secret(f"{_ALGORITHM} {words}")}


def _order(query: str) -> str:
    pairs = parse_qsl(query, keep_blank_values=True)
    return "&".join(sorted(f"{quote(name, '')}={quote(value, '')}" for name, value in pairs))


def _digest(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def _reveal(value: str | Secret) -> str:
    return value.reveal() if isinstance(value, Secret) else value

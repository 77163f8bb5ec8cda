"""Amazon's authentication: keys for Bedrock, and signatures, which botocore computes again."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from types import MappingProxyType

from vibe_llms.foundation.optional_packages import needing
from vibe_llms.testing.simulator.credentials import WRONG
from vibe_llms.testing.simulator.protocols import SimulatedRequest
from vibe_llms.testing.simulator.refusals import SimulatedRefusal

SECRETS: Mapping[str, str] = MappingProxyType(
    {"AKIASIMULATED": "simulated-secret", "ASIASIMULATED": "another-simulated-secret"}
)
"""The secret of each access key."""

SESSION_TOKENS: Mapping[str, str] = MappingProxyType({"ASIASIMULATED": "simulated-session-token"})
"""The session token of each temporary access key."""

EXPIRED_KEY = "ASIAEXPIRED"
"""A temporary access key that has ended."""

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/(?P<day>\d{8})/(?P<region>[^/]+)"
    r"/(?P<service>[^/]+)/aws4_request, SignedHeaders=(?P<headers>[^,]+), "
    r"Signature=(?P<signature>[0-9a-f]{64})"
)


def check_amazon_credentials(request: SimulatedRequest) -> None:
    """Refuse a request without a valid key for Bedrock or a valid signature."""
    authorization = request.headers.get("authorization", "")
    scheme, _, key = authorization.partition(" ")
    if scheme.lower() == "bearer" and key.strip():
        if any(word in key for word in WRONG):
            raise SimulatedRefusal(
                403,
                "permission",
                "Authentication failed: Please make sure your API Key is valid.",
            )
        return
    match = _AUTHORIZATION.fullmatch(authorization)
    if match is None:
        raise SimulatedRefusal(
            403,
            "authentication",
            "Missing Authentication Token",
            code="MissingAuthenticationTokenException",
        )
    _check_signature(match.groupdict(), request)


def _check_signature(found: Mapping[str, str], request: SimulatedRequest) -> None:
    key = found["key"]
    if key == EXPIRED_KEY:
        message = "The security token included in the request is expired"
        raise SimulatedRefusal(403, "authentication", message, code="ExpiredTokenException")
    token = request.headers.get("x-amz-security-token")
    if key not in SECRETS or token != SESSION_TOKENS.get(key):
        message = "The security token included in the request is invalid."
        raise SimulatedRefusal(403, "authentication", message, code="UnrecognizedClientException")
    if found["service"] != "bedrock":
        message = f"Credential should be scoped to correct service: 'bedrock', not {found}."
        raise SimulatedRefusal(403, "authentication", message, code="InvalidSignatureException")
    if not hmac.compare_digest(_compute_signature(found, token, request), found["signature"]):
        message = (
            "The request signature we calculated does not match the signature you provided. Check "
            "your AWS Secret Access Key and signing method."
        )
        raise SimulatedRefusal(403, "authentication", message, code="InvalidSignatureException")


def _compute_signature(
    found: Mapping[str, str], token: str | None, request: SimulatedRequest
) -> str:
    with needing("bedrock", "botocore", "Checking signatures"):
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials

    credentials = Credentials(found["key"], SECRETS[found["key"]], token)
    authentication = SigV4Auth(credentials, found["service"], found["region"])
    url = f"http://{request.headers['host']}{request.target}"
    names = found["headers"].split(";")
    headers = {name: request.headers[name] for name in names if name in request.headers}
    signed = AWSRequest(method=request.method, url=url, data=request.data, headers=headers)
    signed.context["timestamp"] = request.headers.get("x-amz-date", "")
    canonical = authentication.canonical_request(signed)
    text = authentication.string_to_sign(signed, canonical)
    return str(authentication.signature(text, signed))

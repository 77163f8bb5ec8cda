"""TLS contexts whose certificates are read when they are needed."""

from __future__ import annotations

import subprocess
import sys

_CODE = """
import ssl
from vibe_llms.wire.certificates import DeferredContext, import_aiohttp

load = ssl.SSLContext.load_default_certs
import_aiohttp()
assert ssl.SSLContext.load_default_certs is load
assert "set_default_verify_paths" not in vars(ssl.SSLContext)
from aiohttp import connector

context, usual = connector._SSL_CONTEXT_VERIFIED, ssl.create_default_context()
assert type(context) is DeferredContext
assert type(usual) is ssl.SSLContext
assert isinstance(context, ssl.SSLContext)
assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname
tls = context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="example.org")
assert tls.context is context
assert type(context) is ssl.SSLContext
assert context.cert_store_stats() == usual.cert_store_stats()
assert context.get_ca_certs() == usual.get_ca_certs()
print("as usual")
"""


def test_certificates_are_read_when_tls_begins_and_then_all_is_as_usual() -> None:
    """The context of aiohttp checks servers as it always does, but not before it is used."""
    outcome = subprocess.run(
        [sys.executable, "-c", _CODE], capture_output=True, text=True, check=False
    )

    assert outcome.stdout == "as usual\n", outcome.stderr

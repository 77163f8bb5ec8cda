"""TLS contexts whose certificates are read when they are needed."""

from __future__ import annotations

import ssl
import subprocess
import sys
import threading

from vibe_llms.wire import certificates

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


def test_two_threads_that_import_at_once_leave_nothing_behind() -> None:
    """The second waits for the first, and what was replaced meanwhile is as it was."""
    before = ssl.SSLContext.load_default_certs
    failures: list[BaseException] = []

    def enter() -> None:
        try:
            with certificates._defer():
                pass
        except BaseException as error:
            failures.append(error)

    with certificates._defer():
        second = threading.Thread(target=enter)
        second.start()
        second.join(0.05)
        assert second.is_alive()
    second.join()
    assert not failures
    assert ssl.SSLContext.load_default_certs is before
    assert "set_default_verify_paths" not in vars(ssl.SSLContext)

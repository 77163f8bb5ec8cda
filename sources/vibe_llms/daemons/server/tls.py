"""TLS context from files that may be replaced while the server runs."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Final, TypeAlias

from vibe_llms.daemons.server.settings import ServerSettings
from vibe_llms.exceptions import ConfigurationError
from vibe_llms.foundation.files import warn_of_readers
from vibe_llms.wire.http.tls import ensure_file, refuse_file

_logger = logging.getLogger(__name__)

RELOAD_SECONDS: Final = 5.0
"""Interval of checks whether the files were replaced."""

_Signature: TypeAlias = tuple[tuple[int, int, int] | None, ...]
"""Modification time, inode and size of each file, to detect that it was replaced."""


class TlsFiles:
    """TLS context for new connections, reloaded when its files are replaced.

    Raises:
        ConfigurationError: A file is missing or invalid, or the key does not match the certificate.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._signature = self._read_signature()
        self.context = produce_context(settings)

    def reload(self, *, always: bool = False) -> None:
        """Reload the files if they were replaced; keep the old context if the files are invalid.

        Args:
            always: Reload them even if they were not replaced.
        """
        signature = self._read_signature()
        if signature == self._signature and not always:
            return
        self._signature = signature
        try:
            self.context = produce_context(self._settings)
        except ConfigurationError as error:
            _logger.error("The TLS files are invalid; the previous ones stay active: %s", error)
        else:
            _logger.info("Reloaded the TLS files")

    def _read_signature(self) -> _Signature:
        settings = self._settings
        paths = (settings.certificate, settings.key, settings.client_authorities)
        return tuple(_read_file_signature(path) for path in paths if path is not None)


def _read_file_signature(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


def produce_context(settings: ServerSettings) -> ssl.SSLContext:
    """Produce the TLS context of a server's connections.

    Raises:
        ConfigurationError: A file is missing or invalid, or the key does not match the certificate.
    """
    assert settings.certificate is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    place, file = "server.certificate", settings.certificate
    try:
        ensure_file(file)
        # The file must contain a certificate; any further error means that the key does not match.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cafile=file)
        if settings.key is not None:
            place, file = "server.key", settings.key
            ensure_file(file)
        # An empty password, so that an encrypted key is an error instead of a prompt.
        context.load_cert_chain(settings.certificate, settings.key, password="")
        warn_of_readers(settings.key or settings.certificate)
        if settings.client_authorities is not None:
            place, file = "server.client_authorities", settings.client_authorities
            ensure_file(file)
            context.load_verify_locations(cafile=file)
            context.verify_mode = ssl.CERT_REQUIRED
    except OSError as error:  # ssl.SSLError is one
        raise refuse_file(place, file, error) from error
    return context

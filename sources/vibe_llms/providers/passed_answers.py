"""Answers of a vendor that are passed through to a client, without the provider's secrets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

from vibe_llms.foundation.secrets import Secret, is_secret_name
from vibe_llms.providers.settings import RemoteSettings
from vibe_llms.providers.vendors import Vendor
from vibe_llms.wire.exchanges import Exchange
from vibe_llms.wire.guarded import GuardedExchange
from vibe_llms.wire.scrubbing import Scrubber

_MIN_SECRET_CHARACTERS: Final = 12
"""Minimum length of the secrets that are removed from passed-through answers; shorter ones are only
removed from errors, since dummy keys such as ``ollama`` are also words in models' answers.
"""


class PassedAnswers:
    """Removes the secrets of a provider from answers, in case the vendor sent them back.

    Args:
        vendor: The vendor.
        list_secrets: Returns the secrets that are sent.
    """

    def __init__(self, vendor: Vendor, list_secrets: Callable[[], Sequence[Secret]]) -> None:
        self._vendor = vendor
        self._list_secrets = list_secrets
        self._made_for: tuple[Secret | None, RemoteSettings] | None = None
        self._sources: object = None  # what the scrubbers were made from
        self._scrubbers: dict[Literal["error", "answer"], Scrubber] = {}

    def guard(self, exchange: Exchange, key: Secret | None) -> Exchange:
        """Return the exchange with an answer without secrets.

        Args:
            key: The key in use.
        """
        kind: Literal["error", "answer"] = "error" if exchange.status >= 400 else "answer"
        return GuardedExchange(exchange, self._access_scrubbers(key)[kind])

    def _access_scrubbers(self, key: Secret | None) -> dict[Literal["error", "answer"], Scrubber]:
        settings, credentials = self._vendor.settings, self._vendor.cloud_credentials
        if credentials is None and self._made_for == (key, settings):
            return self._scrubbers
        obtained = [] if credentials is None else [x.reveal() for x in credentials.list_secrets()]
        sources = None if key is None else key.reveal(), obtained, settings
        if sources != self._sources:
            self._sources, secrets = sources, self._list_secrets()
            self._made_for = key, settings
            public = [text for name, text in settings.headers.items() if not is_secret_name(name)]
            private_secrets = [each for each in secrets if each not in public]
            self._scrubbers = {
                "error": Scrubber(secrets, shapes=False),
                "answer": Scrubber(
                    private_secrets, shapes=False, min_length=_MIN_SECRET_CHARACTERS
                ),
            }
        return self._scrubbers

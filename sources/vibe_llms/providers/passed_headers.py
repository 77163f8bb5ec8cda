"""Headers of requests that are passed through to a vendor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vibe_llms.foundation.secrets import Secret
from vibe_llms.foundation.sentinels import ABSENT, Absence
from vibe_llms.providers.vendors import Vendor
from vibe_llms.wire.exchanges import FixedHeaders
from vibe_llms.wire.tracing import compose_trace_headers

_KEPT: Final = 64
_CHARACTERS: Final = 512
"""Limits on the kept headers, and on what a client adds to each."""


class PassedHeaders:
    """Headers of a vendor, merged with those of clients.

    The usual ones are kept, as most requests have the same, and to write them takes long.
    """

    def __init__(self, vendor: Vendor) -> None:
        self._vendor = vendor
        self._key: Secret | None | Absence = ABSENT  # what the kept ones were made for
        self._kept: dict[tuple[tuple[str, str], ...], FixedHeaders] = {}

    def merge(self, key: Secret | None, headers: Mapping[str, str]) -> Mapping[str, str | Secret]:
        """Return the headers of a request: the vendor's, the client's, and those for tracing.

        Args:
            key: The key of the vendor.
            headers: Headers of the client.
        """
        if key is not self._key:
            self._key, self._kept = key, {}
        trace = compose_trace_headers()
        added = (*headers.items(), *trace.items())
        if (fixed := self._kept.get(added)) is not None:
            return fixed
        ours = {**self._vendor.compose_headers(key, {}), **self._vendor.settings.headers}
        sent: dict[str, str | Secret] = {"accept": "*/*", **ours, **headers, **trace}
        for name, value in ours.items():
            if value.__class__ is Secret:
                sent[name] = value
        if sum(map(len, headers.values())) > _CHARACTERS or "traceparent" in trace:
            return sent
        if len(self._kept) >= _KEPT:
            self._kept.clear()
        fixed = self._kept[added] = FixedHeaders(sent)
        return fixed

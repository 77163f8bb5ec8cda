"""Content as objects of Amazon S3, Google Cloud Storage, Azure Blob Storage, or similar servers.

Requests to S3 sign the SHA-256 of the body, so that the server refuses bytes that were changed in
transit. Every read verifies it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import attrs

from vibe_llms.conversations.stores.content_backends import MARKER, StoredBytes, describe_missing
from vibe_llms.conversations.stores.identities import ensure_content_id, is_content_id
from vibe_llms.conversations.stores.object_stores import (
    KEY_REMEDIES,
    ObjectLocation,
    find_keys,
    list_secrets,
    open_object_store,
)
from vibe_llms.exceptions import (
    CorruptionError,
    StoreError,
    StoreUnavailableError,
)
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.contents import compute_content_id
from vibe_llms.providers.sanitization import clean_error

CONTENT_BYTES: Final = 268_435_456
"""Size limit of one content, which is sent and received in one piece."""

PAGE_OBJECTS: Final = 1_000
"""Number of objects in one page of a list."""

_STATUS: Final = re.compile(r"status code: (\d{3})")
_MESSAGE_FIELD: Final = re.compile(r"<(Code|Message)>([^<]{1,500})</")

_Result = TypeVar("_Result")


@define(eq=False)
class ObjectBackend:
    """Part of a bucket; see :class:`.ContentBackend`."""

    address: str
    _location: ObjectLocation
    _keys: dict[str, str] = attrs.field(factory=dict, init=False, repr=False)
    _store: Any = attrs.field(default=None, init=False)

    def put(self, content_id: str, data: bytes, *, mime_type: str, name: str | None) -> None:
        """Store the data; only the database knows the name of the file."""
        if len(data) > CONTENT_BYTES:
            raise self._refuse_size(len(data))
        kind = mime_type if re.fullmatch(r"[!-~]+", mime_type) else "application/octet-stream"
        self._put(ensure_content_id(content_id), data, attributes={"Content-Type": kind})

    def has(self, content_id: str, size: int) -> bool:
        """Return whether the data exist."""
        found = self._head(ensure_content_id(content_id))
        return found is not None and found["size"] == size

    def read(self, content_id: str) -> bytes:
        """Return the data, verified by their hash."""
        data = self._get(ensure_content_id(content_id))
        if data is None:
            raise describe_missing(content_id, self.address)
        if compute_content_id(data) != content_id:
            raise CorruptionError(
                path=f"{self.address} content {content_id}",
                detail="The data do not match the id.",
                remedy="Restore the object from a backup.",
            )
        return data

    def remove(self, content_id: str) -> None:
        """Delete the data, if they exist."""
        path = ensure_content_id(content_id)
        self._perform(lambda store: store.delete(path), allows_missing=True)

    def sweep(self) -> None:
        """Do nothing: uploads of objects are atomic."""

    def claim(self, mark: str) -> str:
        """Create the marker object; if two processes do so at once, the first one counts."""
        if known := self.read_mark():
            return known
        from obstore.exceptions import AlreadyExistsError

        with suppress(AlreadyExistsError):
            self._put(MARKER, mark.encode(), mode="create")
        return self.read_mark()

    def read_mark(self) -> str:
        """Read the marker object."""
        data = self._get(MARKER)
        return "" if data is None else data.decode("utf-8", "replace")

    def survey(self) -> Iterator[StoredBytes]:
        """List the objects that are younger than the marker, page by page."""
        marker = self._head(MARKER)
        if marker is None:
            return
        pages: Any = self._perform(lambda store: store.list(chunk_size=PAGE_OBJECTS))
        while page := self._perform(lambda store: next(pages, None)):
            for each in page:
                moment = each["last_modified"]
                # The time in a list has fractions of a second, but not that in a HEAD response.
                if is_content_id(each["path"]) and moment >= marker["last_modified"]:
                    age = (datetime.now(UTC) - moment).total_seconds()
                    yield StoredBytes(each["path"], each["size"], age)

    def _put(self, path: str, data: bytes, **options: Any) -> None:
        self._perform(lambda store: store.put(path, data, use_multipart=False, **options))

    def _head(self, path: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self._perform(
            lambda store: store.head(path), allows_missing=True
        )
        return found

    def _get(self, path: str) -> bytes | None:
        def get(store: Any) -> bytes:
            result = store.get(path)
            if result.meta["size"] > CONTENT_BYTES:
                raise self._refuse_size(result.meta["size"])
            return bytes(result.bytes())

        return self._perform(get, allows_missing=True)

    def _refuse_size(self, size: int) -> StoreError:
        return StoreError(
            path=self.address,
            detail=f"The content has {size:,} bytes; {self.address} accepts at "
            f"most {CONTENT_BYTES:,}.",
        )

    def _perform(
        self, work: Callable[[Any], _Result], *, allows_missing: bool = False
    ) -> _Result | None:
        """Call a function with the client of the bucket, and convert errors.

        Args:
            work: Calls the client, which may retry requests.
            allows_missing: Return ``None`` for a missing object.
        """
        keys = find_keys(self._location)
        if self._store is None or keys != self._keys:  # keys are replaced during long runs
            self._store, self._keys = open_object_store(self._location, keys), keys
        store = self._store
        from obstore.exceptions import AlreadyExistsError, BaseError

        try:
            return _run_interruptibly(lambda: work(store))
        except AlreadyExistsError:
            raise
        except FileNotFoundError as error:
            # obstore also raises this for a missing bucket, if the response has a body.
            if allows_missing and not any(code in str(error) for code in _NO_BUCKET):
                return None
            failure = self._explain(str(error))
        except BaseError as error:
            failure = self._explain(str(error))
        except BaseException as error:
            # Not a subclass of Exception: Rust panics for a header that it cannot write.
            if type(error).__name__ != "PanicException":
                raise
            failure = self._explain(
                "obstore could not send the request; check the keys for invalid characters"
            )
        # Not chained to its cause, which would quote the request.
        raise clean_error(failure, list_secrets(keys))

    def _explain(self, text: str) -> StoreError:
        """Shorten obstore's message, which is a page long, to one line, and add a remedy."""
        text = text.split("\n\nDebug source")[0]
        found, fields = _STATUS.search(text), dict(_MESSAGE_FIELD.findall(text))
        status, code = int(found[1]) if found else 0, fields.get("Code", "")
        detail = text
        if found:
            reason = ": ".join(filter(None, (code, fields.get("Message")))) or "no reason given"
            detail = f"status {status}, {reason}"
        elif "incorrectly configured region" in text:
            status, code = 301, "PermanentRedirect"
        is_temporary = status in _TEMPORARY_STATUSES or status >= 500 or not status
        hint = KEY_REMEDIES[self._location.cloud] if is_temporary or status in (401, 403) else ""
        line = " ".join(detail.split()).rstrip(".")
        line = "".join(each if each.isprintable() else "?" for each in line)
        kind = StoreUnavailableError if is_temporary else StoreError
        return kind(
            path=self.address,
            detail=f"{self.address}: {line}.",
            remedy=_REMEDIES.get(code, hint),
        )


def _run_interruptibly(work: Callable[[], _Result]) -> _Result:
    """Run blocking work of obstore in another thread, so that Ctrl-C interrupts it.

    obstore's coroutines can be interrupted, too, but their threads abort about every third process
    at its end (obstore 0.12).
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    future: Future[_Result] = Future()

    def perform() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=perform, name="vibe-llms-objects", daemon=True).start()
    return future.result()


_NO_BUCKET: Final = ("NoSuchBucket", "ContainerNotFound")
_TEMPORARY_STATUSES: Final = (408, 429)
_REMEDIES: Final = {
    "AccessDenied": "Let this key read, write, list and delete objects of the bucket.",
    "InvalidAccessKeyId": "Check AWS_ACCESS_KEY_ID.",
    "NoSuchBucket": "Create the bucket, or name another one.",
    "ContainerNotFound": "Create the container, or name another one.",
    "PermanentRedirect": "Set AWS_REGION to the region of the bucket.",
    "RequestTimeTooSkewed": "Correct the clock of this machine.",
    "SignatureDoesNotMatch": "Check AWS_SECRET_ACCESS_KEY, and AWS_REGION.",
}

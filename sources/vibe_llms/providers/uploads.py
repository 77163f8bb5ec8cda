"""Uploads of large media: each content is sent to the vendor once, and requests refer to its id.

A file that has ended, or that was deleted at the vendor, is uploaded again: its end is noted, and
after an error that may have this cause, the vendor is asked for the files of the request.
"""

from __future__ import annotations

import asyncio
import logging
import mimetypes
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, TypeAlias, TypeVar

from vibe_llms.dialects.ledger import UploadedId
from vibe_llms.dialects.media_types import is_text, name_file
from vibe_llms.events.stream import StreamEvent
from vibe_llms.exceptions import ConverseError, ProviderError, Stage, StoreError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.clocks import Clock
from vibe_llms.messages.canisters import AnyCanister, DocumentCanister, UserCanister
from vibe_llms.messages.contents import CONTENT_CLASSES, MEDIA_CLASSES, FileContent, MediaContent
from vibe_llms.messages.field_types import evolve_unchecked
from vibe_llms.messages.identities import access_now
from vibe_llms.messages.requests import Request
from vibe_llms.messages.vendor_files import NotedFile, VendorFile, VendorFileNotes
from vibe_llms.messages.views import list_content_classes
from vibe_llms.providers.retries import RetryPolicy, repeat
from vibe_llms.providers.streams import EventSource, close_quietly

GONE_STATUSES: Final = frozenset({400, 403, 404, 410})
"""Statuses of a request that refers to a missing file; each vendor has another one."""

_MISSING_STATUSES: Final = GONE_STATUSES - {400}
"""Statuses of the request for a missing file itself."""

_CONCURRENCY: Final = 4
"""Uploads of one client at the same time: each holds a copy of its content."""

_MAX_KNOWN: Final = 4_096
"""Files that a client remembers in addition to the notes of the store."""

_NO_MEDIA: Final = frozenset(CONTENT_CLASSES.values()) - {*MEDIA_CLASSES}
_INPUTS: Final = (UserCanister, DocumentCanister)
_T = TypeVar("_T")
_LOGGER: Final = logging.getLogger("vibe_llms.providers")


class VendorFiles(Protocol):
    """A vendor's files, of one account.

    Attributes:
        keeps_names: Whether a message that refers to a file may have the file's name.
    """

    keeps_names: bool

    def accepts(self, content: MediaContent) -> bool:
        """Return whether a message can refer to this kind of content."""

    async def upload(self, content: MediaContent) -> VendorFile:
        """Upload the data of a content, and wait until requests can use it.

        Raises:
            ConverseError: The vendor refuses it.
        """

    async def find(self, identity: str) -> VendorFile | None:
        """Return a file. ``None``, or an error with status 403, 404 or 410, if it is missing.

        Raises:
            ConverseError: The vendor cannot be asked, or the file is missing.
        """

    async def delete(self, identity: str) -> None:
        """Delete a file. Raises ConverseError."""


def name_upload(content: MediaContent) -> str:
    """Return the name of an uploaded file; vendors detect types from its suffix."""
    if content.name:
        return content.name
    if isinstance(content, FileContent):
        return name_file(content)
    return f"{content.type}{mimetypes.guess_extension(content.mime_type) or ''}"


def refuse_file_answer() -> ConverseError:
    """Create the error of an invalid answer about a file."""
    return ConverseError(detail="The answer about a file is invalid.", stage=Stage.DECODE)


@define(eq=False)
class _Upload:
    """An upload in progress, which several requests may wait for."""

    task: asyncio.Task[VendorFile]
    waiters: int = 0


class Uploads:
    """Uploaded contents of one client.

    Args:
        compute_account: Returns the name of the account, for notes.
        files: The vendor's files.
        min_bytes: Contents above this size are uploaded.
        access_notes: Returns the notes of the content store; ``None`` without a store.
        policy: Decides whether to repeat an upload.
        clock: Waits before repetitions.
    """

    def __init__(
        self,
        compute_account: Callable[[], str],
        files: VendorFiles,
        min_bytes: int,
        access_notes: Callable[[], VendorFileNotes | None],
        *,
        policy: RetryPolicy,
        clock: Clock,
    ) -> None:
        self.files = files
        self._compute_account = compute_account
        self._policy = policy
        self._clock = clock
        self._min_bytes = min_bytes
        self._access_notes = access_notes
        self._known: dict[str, VendorFile] = {}
        self._uploads: dict[str, _Upload] = {}
        self._semaphore = asyncio.Semaphore(_CONCURRENCY)

    def find_large(self, request: Request) -> dict[str, MediaContent]:
        """Return the contents of a request that are uploaded, by their ids."""
        canisters = request.canisters
        if list_content_classes(canisters) <= _NO_MEDIA:  # most requests are only text
            return {}
        inputs = (canister for canister in canisters if isinstance(canister, _INPUTS))
        contents = (content for canister in inputs for content in canister.content)
        return {
            str(content.content_id): content
            for content in contents
            if isinstance(content, MEDIA_CLASSES) and self._is_large(content)
        }

    def _is_large(self, content: MediaContent) -> bool:
        data = content.data
        if data is None or content.url is not None or content.file_id is not None:
            return False
        # Text is sent as text.
        is_binary = not is_text(content.mime_type) and not content.is_vague
        return len(data) > self._min_bytes and is_binary and self.files.accepts(content)

    async def prepare(self, request: Request) -> Request:
        """Return a request that refers to the vendor's files instead of large contents.

        Raises:
            ConverseError: An upload failed.
        """
        large = self.find_large(request)
        if not large:
            return request
        found = await asyncio.gather(*map(self._acquire, large.values()))
        files = dict(zip(large, found, strict=True))
        canisters = tuple(self._refer(canister, files) for canister in request.canisters)
        return evolve_unchecked(request, canisters=canisters)

    def _refer(self, canister: AnyCanister, files: Mapping[str, VendorFile]) -> AnyCanister:
        if not isinstance(canister, _INPUTS):
            return canister
        contents = [
            self._refer_content(content, files[str(content.content_id)])
            if isinstance(content, MEDIA_CLASSES) and content.content_id in files
            else content
            for content in canister.content
        ]
        if all(new is old for new, old in zip(contents, canister.content, strict=True)):
            return canister
        return evolve_unchecked(canister, content=tuple(contents))

    def _refer_content(self, content: MediaContent, file: VendorFile) -> MediaContent:
        if not self._is_large(content):  # equal data, but already at a URL
            return content
        # Unchecked, since a check would remove the mark of the id.
        name = content.name if self.files.keeps_names else None
        return evolve_unchecked(content, data=None, file_id=UploadedId(file.id), name=name)

    async def _acquire(self, content: MediaContent) -> VendorFile:
        """Return the vendor's file of a content; concurrent requests share one upload."""
        content_id = str(content.content_id)
        upload = self._uploads.get(content_id)
        if upload is None:
            task = asyncio.create_task(self._find_or_upload(content_id, content))
            upload = self._uploads[content_id] = _Upload(task)
        upload.waiters += 1
        try:
            return await asyncio.shield(upload.task)
        finally:
            upload.waiters -= 1
            if not upload.waiters:  # it is done, or the last request was cancelled
                upload.task.cancel()
                if self._uploads.get(content_id) is upload:
                    del self._uploads[content_id]

    async def _find_or_upload(self, content_id: str, content: MediaContent) -> VendorFile:
        file = await self._find(content_id)
        if file is None:
            async with self._semaphore:
                upload = partial(self.files.upload, content)
                file = await repeat(upload, self._policy, self._clock)
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[content_id] = file
            await self._note(content_id, file)
        return file

    async def _find(self, content_id: str) -> VendorFile | None:
        known = self._known.get(content_id)
        noted = await self._use_notes(lambda notes: notes.find(content_id, self.account))
        now = access_now()
        if noted is not None and noted.is_usable(now):
            return noted
        if known is None or not known.is_usable(now):
            return None
        await self._note(content_id, known)  # the store may have the content by now
        return known

    async def _note(self, content_id: str, file: VendorFile) -> None:
        await self._use_notes(lambda notes: notes.note(content_id, self.account, file))

    async def _use_notes(self, use: Callable[[VendorFileNotes], _T]) -> _T | None:
        """Read or write notes; without the store, a request only uploads its contents again."""

        def perform() -> _T | None:
            notes = self._access_notes()
            return None if notes is None else use(notes)

        try:
            return await asyncio.to_thread(perform)
        except StoreError as error:
            _LOGGER.warning("Cannot note the ids of uploaded files: %s", error)
            return None

    @property
    def account(self) -> str:
        """Name of the account, for notes. Raises ConfigurationError if the key is missing."""
        return self._compute_account()

    async def delete(self, noted: NotedFile) -> None:
        """Delete a file at the vendor, if it is still there, and forget it.

        Raises:
            ConverseError: The vendor cannot be asked.
        """
        try:
            await self.files.delete(noted.file.id)
        except ProviderError as error:
            if error.status not in _MISSING_STATUSES:
                raise
        self._known.pop(noted.content_id, None)
        await self._use_notes(partial(self._forget, noted.content_id, noted.file.id))

    async def forget_missing(self, request: Request) -> bool:
        """Forget the files of a request that the vendor no longer has.

        Returns:
            Whether there are any, so that the request should be sent again.
        """
        has_missing = False
        for content_id in self.find_large(request):
            file = await self._find(content_id)
            if file is None or await self._exists(file):
                continue
            has_missing = True
            if self._known.get(content_id) == file:
                del self._known[content_id]
            await self._use_notes(partial(self._forget, content_id, file.id))
        return has_missing

    def _forget(self, content_id: str, identity: str, notes: VendorFileNotes) -> None:
        notes.forget(content_id, self.account, identity)

    async def _exists(self, file: VendorFile) -> bool:
        try:
            found = await self.files.find(file.id)
        except ProviderError as error:
            return error.status not in _MISSING_STATUSES
        except ConverseError:
            return True  # unknown; the error of the request is reported
        return found is not None and found.is_usable(access_now())


Send: TypeAlias = Callable[[Request], Awaitable[EventSource]]
"""Translates and sends a request."""


class Renewable(Protocol):
    """Knows names of a vendor's objects, such as files, which may have ended."""

    async def forget_missing(self, request: Request) -> bool:
        """Forget the names of a request that have ended; return whether there are any."""


async def send_renewing(
    uploads: Renewable, request: Request, first: Awaitable[EventSource], send: Send, provider: str
) -> EventSource:
    """Send a request; if files have ended, upload them and send it again, once.

    Args:
        request: The request with the data of its contents.
        first: Sends the translated request.
        send: Translates and sends the request again.
        provider: Name of the provider, for logs.

    Raises:
        ConverseError: It fails for another reason, or again.
    """

    async def renew(error: ConverseError) -> EventSource:
        is_gone = isinstance(error, ProviderError) and error.status in GONE_STATUSES
        if not is_gone or not await uploads.forget_missing(request):
            raise error
        return await send(request)

    try:
        source = await first
    except ConverseError as error:
        return await renew(error)
    if getattr(source, "is_spent", False):
        return source
    return RenewingSource(source, renew, provider)


class RenewingSource:
    """Event source that is replaced, once, if its request refers to files that have ended."""

    def __init__(
        self,
        source: EventSource,
        renew: Callable[[ConverseError], Awaitable[EventSource]],
        provider: str,
    ) -> None:
        self._source = source
        self._renew = renew
        self._provider = provider
        self._is_renewed = False

    async def receive(self) -> Sequence[StreamEvent] | None:
        """Return the next events, at least one; ``None`` at the end. Raises ConverseError."""
        try:
            return await self._source.receive()
        except ConverseError as error:
            if self._is_renewed:
                raise
            self._is_renewed = True
            source = await self._renew(error)
        await close_quietly(self._source, self._provider)
        self._source = source
        return await self._source.receive()

    @property
    def is_spent(self) -> bool:
        """True if there is nothing to release."""
        return bool(getattr(self._source, "is_spent", False))

    async def close(self) -> None:
        """Stop the request."""
        await self._source.close()

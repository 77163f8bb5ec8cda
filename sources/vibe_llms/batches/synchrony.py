"""Synchronous batch channels: wrappers that call the asynchronous ones through a portal."""

from __future__ import annotations

from array import array
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar, Unpack, overload

from vibe_llms.batches.channel import (
    BatchChannel,
    BatchSettings,
    JournalSettings,
    Work,
)
from vibe_llms.batches.items import BatchTally
from vibe_llms.batches.text_work import AnyInstrument
from vibe_llms.batches.vendor_channel import (
    VendorBatchChannel,
    VendorSettings,
)
from vibe_llms.foundation.sync_faces import SyncFace, blocking, iterating
from vibe_llms.instruments.embedders import Embedder, SyncEmbedder
from vibe_llms.instruments.engines import Engine, SyncEngine
from vibe_llms.instruments.models import Model, SyncModel
from vibe_llms.instruments.moderators import Moderator, SyncModerator
from vibe_llms.instruments.parsers.parsers import Parser

T = TypeVar("T")


class SyncBatchChannel(SyncFace[BatchChannel[T]], Generic[T]):
    """Synchronous batch; see :class:`BatchChannel`.

    It also works while an event loop is running. Use it as a context manager, or close it.
    """

    @overload
    def __init__(
        self: SyncBatchChannel[str],
        work: Model | SyncModel | Engine | SyncEngine | str,
        *,
        parser: None = ...,
        **settings: Unpack[BatchSettings],
    ) -> None: ...
    @overload
    def __init__(
        self,
        work: Model | SyncModel | str,
        *,
        parser: Parser[T] | type[T],
        **settings: Unpack[BatchSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: SyncBatchChannel[array[float]],
        work: Embedder | SyncEmbedder,
        **settings: Unpack[JournalSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: SyncBatchChannel[dict[str, Any]],
        work: Moderator | SyncModerator,
        **settings: Unpack[JournalSettings],
    ) -> None: ...
    @overload
    def __init__(
        self, work: Callable[[Any], Awaitable[T]], **settings: Unpack[JournalSettings]
    ) -> None: ...
    def __init__(self, work: Work, **settings: Any) -> None:
        produce: Any = BatchChannel  # it has the overloads of this class
        super().__init__(produce(work, **settings))

    @property
    def tally(self) -> BatchTally:
        """Counts of the current run, or of the last one."""
        return self.asynchronous.tally

    run = iterating(BatchChannel[T].run, closes=True)
    collect = blocking(BatchChannel[T].collect)
    submit = blocking(BatchChannel[T].submit)
    close = blocking(BatchChannel[T].close)


class SyncVendorBatchChannel(SyncFace[VendorBatchChannel[T]], Generic[T]):
    """Synchronous batch over a vendor's batches; see :class:`VendorBatchChannel`.

    It also works while an event loop is running. Use it as a context manager, or close it.
    """

    @overload
    def __init__(
        self: SyncVendorBatchChannel[str],
        work: Model | SyncModel | str,
        *,
        parser: None = ...,
        **settings: Unpack[VendorSettings],
    ) -> None: ...
    @overload
    def __init__(
        self,
        work: Model | SyncModel | str,
        *,
        parser: Parser[T] | type[T],
        **settings: Unpack[VendorSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: SyncVendorBatchChannel[array[float]],
        work: Embedder | SyncEmbedder,
        **settings: Unpack[VendorSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: SyncVendorBatchChannel[dict[str, Any]],
        work: Moderator | SyncModerator,
        **settings: Unpack[VendorSettings],
    ) -> None: ...
    def __init__(self, work: Model | SyncModel | AnyInstrument | str, **settings: Any) -> None:
        produce: Any = VendorBatchChannel  # it has the overloads of this class
        super().__init__(produce(work, **settings))

    @property
    def tally(self) -> BatchTally:
        """Counts of the current run, or of the last one."""
        return self.asynchronous.tally

    run = iterating(VendorBatchChannel[T].run, closes=True)
    collect = blocking(VendorBatchChannel[T].collect)
    foresee = blocking(VendorBatchChannel[T].foresee)
    cancel = blocking(VendorBatchChannel[T].cancel)
    close = blocking(VendorBatchChannel[T].close)

"""Combine the results of several calls: the parts that all kinds of results share.

Vectors, rankings and moderations of many texts may take several calls to the vendor.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TypeVar, overload

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.canisters import Origin, Usage
from vibe_llms.messages.losses import Loss, ensure_losses
from vibe_llms.messages.views import add_usages

Item = TypeVar("Item")


@frozen(kw_only=True)
class CallResult:
    """Result of a call: the base of vectors, rankings, images and so on.

    Attributes:
        origin: The model, and its usage.
        losses: Losses of the translation.
    """

    origin: Origin
    losses: tuple[Loss, ...] = attrs.field(default=(), converter=ensure_losses)

    @property
    def usage(self) -> Usage | None:
        """Usage of all requests of the call; ``None`` if the vendor did not report any."""
        return self.origin.usage


@frozen(kw_only=True)
class CallResultSequence(CallResult, Sequence[Item]):
    """Result of a call that is a sequence of items, such as ranked texts."""

    @property
    @abstractmethod
    def _items(self) -> tuple[Item, ...]:
        """The items."""

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        return self._items[index]

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)


def join_origins(parts: Sequence[CallResult]) -> Origin:
    """Return the origin of several results of one model, with the sum of their usage."""
    usage = add_usages(part.usage for part in parts)
    return attrs.evolve(parts[0].origin, usage=usage, response_id=None)


def join_losses(parts: Sequence[CallResult]) -> tuple[Loss, ...]:
    """Return the losses of several results, each once."""
    return tuple(dict.fromkeys(loss for part in parts for loss in part.losses))

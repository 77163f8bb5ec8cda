"""What the ensembles that ship share: their name, the directories that the user grants them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from vibe_llms.invocables.shipped.grants import DirectoryGrant, Grants


class GrantedEnsemble:
    """An ensemble whose invokers stay what they are; see :class:`.Ensemble`.

    Args:
        name: Under which it is configured.
        grants: The directories that it may open; none for what needs none.

    Attributes:
        settings_class: What its table in the configuration is read as, and what it is made from.
    """

    settings_class: ClassVar[type[Any]]

    def __init__(self, name: str, grants: Iterable[DirectoryGrant] = ()) -> None:
        self.name = name
        self._grants = Grants(name, grants)

    async def connect(self) -> None:
        """Opens the directories that are granted.

        Raises:
            EnsembleError: One cannot be opened.
        """
        self._grants.open()

    async def disconnect(self) -> None:
        """Closes them."""
        self._grants.close()

    def listen(self, listener: Callable[[], None]) -> None:
        """Does nothing: the invokers stay."""

"""Base class of the shipped ensembles: their name, and the directories that the user grants."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from vibe_llms.invocables.shipped.grants import DirectoryGrant, Grants


class GrantedEnsemble:
    """An ensemble with fixed invokers; see :class:`.Ensemble`.

    Args:
        name: The configured name of the ensemble.
        grants: The directories that the ensemble may open; may be empty.

    Attributes:
        settings_class: The class of the ensemble's settings, which are its table in the
            configuration.
    """

    settings_class: ClassVar[type[Any]]

    def __init__(self, name: str, grants: Iterable[DirectoryGrant] = ()) -> None:
        self.name = name
        self._grants = Grants(name, grants)

    async def connect(self) -> None:
        """Open the granted directories.

        Raises:
            EnsembleError: A directory cannot be opened.
        """
        self._grants.open()

    async def disconnect(self) -> None:
        """Close the directories."""
        self._grants.close()

    def listen(self, listener: Callable[[], None]) -> None:
        """Do nothing: the invokers do not change."""

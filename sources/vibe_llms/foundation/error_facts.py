"""Base class of all errors: its constructor takes the facts of an error by name."""

from __future__ import annotations

import enum
import inspect
from typing import Any, ClassVar, dataclass_transform


@dataclass_transform(kw_only_default=True, eq_default=False)
class Factual:
    """Base class of errors: each annotated name of a class is a fact with a default.

    A subclass only declares its annotations; the constructor is the same for all. attrs would
    generate constructors, but takes ten times as long to make a class, and every program imports
    these two dozen.
    """

    FACTS: ClassVar[tuple[str, ...]] = ()
    """The names of the facts, those of the bases first."""

    def __init_subclass__(cls) -> None:
        own_facts = [
            name
            for name, annotation in inspect.get_annotations(cls).items()
            if not str(annotation).startswith("ClassVar")
        ]
        cls.FACTS = tuple(dict.fromkeys((*cls.FACTS, *own_facts)))

    def __init__(self, **facts: Any) -> None:
        # A misspelt fact would be lost silently.
        for name in facts.keys() - self.FACTS:
            raise TypeError(f"{type(self).__name__} has no fact {name!r}.")
        self.__dict__.update({name: getattr(type(self), name) for name in self.FACTS}, **facts)

    def __reduce__(self) -> tuple[Any, ...]:
        # By default, exceptions are rebuilt from positional arguments; ours have keywords.
        return (_rebuild, (type(self), access_facts(self)))


class Stage(enum.StrEnum):
    """Stage of a call in which an error arose, from the user's input to the stored line."""

    CONFIGURE = "configure"
    TRANSLATE = "translate"
    CONNECT = "connect"
    SEND = "send"
    FRAME = "frame"
    DECODE = "decode"
    PROVIDER = "provider"
    EXECUTE = "execute"
    STORE = "store"


def access_facts(error: Factual) -> dict[str, Any]:
    """Return the facts of an error by name, as its constructor takes them."""
    return {name: getattr(error, name) for name in error.FACTS}


def _rebuild(cls: type[Factual], facts: dict[str, Any]) -> Factual:
    return cls(**facts)

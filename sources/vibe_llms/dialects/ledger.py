"""What a translation loses, taken down on the way, and what may be said to a vendor again."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard, TypeVar

import attrs

from vibe_llms.dialects.bookkeeping import is_bookkeeping
from vibe_llms.dialects.extras import MESSAGE, TOLD, is_mark, read_native, unescape
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import AnyCanister, Origin
from vibe_llms.messages.contents import MediaContent, Native
from vibe_llms.messages.losses import Loss, LossKind

_Medium = TypeVar("_Medium", bound=MediaContent)


@define(kw_only=True)
class Ledger:
    """Takes down losses while a request is written, and opens natives that may go out.

    Attributes:
        protocol: The dialect that is written.
        provider: Whose request it is; empty where any provider of the dialect will do.
        losses: All that was taken down so far, in order.
        siblings: Further faces of the same service, each as a provider and its protocol: the files
            that were uploaded to them are its own.
        strange: The media whose files were given to another provider, by their identities.
    """

    protocol: str
    provider: str = ""
    losses: list[Loss] = attrs.field(factory=list)
    siblings: tuple[tuple[str, str], ...] = ()
    strange: set[int] = attrs.field(factory=set)

    def coerce(self, path: str, reason: str, *, is_routine: bool = False) -> None:
        """Takes down that something goes in another form."""
        self._add(LossKind.COERCED, path, reason, is_routine=is_routine)

    def drop(self, path: str, reason: str, *, is_routine: bool = False) -> None:
        """Takes down that something does not go, and will not come back."""
        self._add(LossKind.DROPPED, path, reason, is_routine=is_routine)

    def synthesize(self, path: str, reason: str, *, is_routine: bool = False) -> None:
        """Takes down that something was made up."""
        self._add(LossKind.SYNTHESIZED, path, reason, is_routine=is_routine)

    def withhold(self, path: str, reason: str, *, is_routine: bool = False) -> None:
        """Takes down that something is kept back now, and goes where it belongs."""
        self._add(LossKind.WITHHELD, path, reason, is_routine=is_routine)

    def _add(self, kind: LossKind, path: str, reason: str, *, is_routine: bool) -> None:
        self.losses.append(Loss(kind=kind, path=path, reason=reason, is_routine=is_routine))

    def omit(self, value: Any, path: str, *names: str, reason: str) -> None:
        """Takes down which fields of a value say something that finds no place.

        Args:
            path: Of the value.
            names: Of the fields. What is empty, or the default, says nothing.
        """
        for name in names:
            said = getattr(value, name)
            if said and said != _find_default(value.__class__, name):
                self.drop(f"{path}.{name}", reason)

    def omit_native(self, native: Native | None, path: str) -> None:
        """Takes down a native for which there is no place, whosever it is. Raises RequestError.

        Args:
            path: Of what it is native to.
        """
        if native is not None:
            self._withhold_fields(read_native(native, path), path, "no place for it here")

    def admits(
        self, native: Native | None, canister: AnyCanister | None = None
    ) -> TypeGuard[Native]:
        """Tells whether there is a native that may be said to this provider.

        Two vendors may speak one protocol: what one of them signed is nothing to the other.

        Args:
            canister: That the native is on or in; says from which provider it is. Without an
                origin it came with the request, from somebody who speaks this protocol.
        """
        if native is None or native.protocol != self.protocol:
            return False
        origin = canister.origin if canister is not None else None
        return origin is None or self._knows(origin)

    def admits_execution(self, canister: AnyCanister, path: str) -> bool:
        """Tells whether this vendor executed something itself; what another did is withheld."""
        if self.admits(canister.native, canister):
            return True
        self.withhold(path, "what a vendor executed itself is shown to that vendor alone")
        return False

    def _knows(self, origin: Origin) -> bool:
        if origin.protocol not in (None, self.protocol):
            return False
        return not self.provider or origin.provider == self.provider

    def _has_files_of(self, origin: Origin) -> bool:
        return any(origin.provider == provider for provider, _ in self.siblings)

    def _has_files_named(self, native: Native, canister: AnyCanister | None) -> bool:
        """Tells whether a file that another face of this service has named is here, too."""
        origin = canister.origin if canister is not None else None
        if origin is not None:
            return self._knows(origin) or self._has_files_of(origin)
        return any(native.protocol == protocol for _, protocol in self.siblings)

    def survey_files(self, canisters: Sequence[AnyCanister]) -> None:
        """Notes which uploaded files were given to another provider.

        A native says by which protocol a file was named, which several vendors may speak; a file
        without one is as a person writes it. It was given to whoever answered next, if that one
        speaks the protocol; before there is an answer, it is for whoever is asked.
        """
        asked: Origin | None = None
        # From the end, for whoever answered next stands behind.
        for canister in reversed(canisters):
            asked = canister.origin or asked
            if asked is None or self._knows(asked) or self._has_files_of(asked):
                continue
            for content in canister.content:
                if getattr(content, "file_id", None) is None:
                    continue
                if content.native is None or content.native.protocol == asked.protocol:
                    self.strange.add(id(content))  # an equal one may have been given to us

    def settle_file(
        self, content: _Medium, path: str, canister: AnyCanister | None = None
    ) -> _Medium | None:
        """Returns a medium without a file that only another vendor has; None, if it is that alone.

        Args:
            path: Of the medium, for the loss.
            canister: That it is in.
        """
        native = content.native
        is_theirs = native is not None and not (
            self.admits(native, canister) or self._has_files_named(native, canister)
        )
        if content.file_id is None or not (is_theirs or id(content) in self.strange):
            return content
        reason = f"another vendor holds the file {content.file_id}"
        if content.url is None and content.content_id is None:
            self.withhold(path, reason)
            return None
        self.withhold(f"{path}.file_id", reason)
        return attrs.evolve(content, file_id=None)

    def open(
        self,
        native: Native | None,
        path: str,
        canister: AnyCanister | None = None,
        *,
        shared: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Returns the fields of a native which may go out; the others are a loss.

        A null notes that something was not said, and so is no loss.

        Args:
            path: Of what it is native to.
            shared: The fields that mean the same here in whichever protocol they were said.

        Raises:
            RequestError: It holds no JSON object.
        """
        if native is None:
            return {}
        fields = read_native(native, path)
        if not fields or self.admits(native, canister):
            return fields
        # What was said of the message that a call was in is lost like what was said of the call.
        fields = {**(fields.pop(MESSAGE, None) or {}), **fields}
        going = {name: fields.pop(name) for name in shared if fields.get(name) is not None}
        self._withhold_fields(fields, path, f"only {_whose(native, canister)} knows it")
        return going

    def _withhold_fields(self, fields: Mapping[str, Any], path: str, reason: str) -> None:
        """Take down the fields of a native that say something; bookkeeping apart from the rest."""
        for is_routine in (False, True):
            chosen = {
                name: value
                for name, value in fields.items()
                if is_bookkeeping(name, value, is_asked=path == "request") is is_routine
            }
            if names := _list_said(chosen):
                self.withhold(f"{path}.native", f"{names}: {reason}", is_routine=is_routine)


def _list_said(fields: Mapping[str, Any]) -> str:
    """Returns the names of the fields that say something: neither nulls, nor notes of our own.

    A note may say by which name it is told where it does not go.
    """
    told = [name for name, value in fields.items() if value is not None and not is_mark(name)]
    marks = (value for name, value in fields.items() if is_mark(name))
    told += [mark[TOLD] for mark in marks if isinstance(mark, Mapping) and TOLD in mark]
    return ", ".join(sorted(map(unescape, told)))


@contextlib.contextmanager
def reading_natives(canister: AnyCanister, path: str) -> Iterator[None]:
    """Makes an error of the request of what natives without sense in them bring about.

    They come from vendors, but may have been edited since. Where nothing is native, an exception
    is a mistake of ours, and stays what it is.

    Raises:
        RequestError: Something native to the canister, or in it, makes no sense.
    """
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        natives = (canister.native, *(content.native for content in canister.content))
        if isinstance(error, RequestError) or not any(natives):
            raise
        raise RequestError(
            path=path,
            detail=f"What {path} has of its vendor makes no sense there: {error!r}.",
            remedy="Leave its natives out; the common fields go without them.",
        ) from error


@functools.cache
def _find_default(kind: type[Any], name: str) -> object:
    return getattr(attrs.fields(kind), name).default


def _whose(native: Native, canister: AnyCanister | None) -> str:
    origin = canister.origin if canister is not None else None
    return origin.provider if origin is not None else f"a vendor of {native.protocol}"

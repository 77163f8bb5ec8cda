"""Ledger: records the losses of a translation, and decides which native data may be sent."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard, TypeVar

import attrs

from vibe_llms.dialects.bookkeeping import CACHE_FIELDS, is_bookkeeping
from vibe_llms.dialects.extras import MESSAGE, REPORTED_AS, is_mark, read_native, unescape
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import AnyCanister, Origin
from vibe_llms.messages.contents import MEDIA_CLASSES, MediaContent, Native
from vibe_llms.messages.losses import Loss, LossKind

_CONTENT_PATH: Final = re.compile(r"(canisters\[\d+\])\.content\[(\d+)\]")

NO_HINTS: Final = "sent without the cache hint: this vendor has none"
"""The usual reason why a cache hint is not sent."""

_Medium = TypeVar("_Medium", bound=MediaContent)


class UploadedId(str):
    """Id of a file that was uploaded for this request, and so belongs to its vendor."""

    __slots__ = ()


@define(kw_only=True)
class Ledger:
    """Records losses while a request is translated, and returns the native data that may be sent.

    Attributes:
        protocol: The dialect.
        provider: The request's provider; empty for any provider of the dialect.
        losses: All losses so far, in order.
        siblings: Other interfaces of the service, each as a provider and its protocol. Files that
            were uploaded to another interface are available in this one.
    """

    protocol: str
    provider: str = ""
    losses: list[Loss] = attrs.field(factory=list)
    siblings: tuple[tuple[str, str], ...] = ()
    _canisters: Sequence[AnyCanister] = attrs.field(default=(), init=False)
    _removed: dict[str, Sequence[int]] = attrs.field(factory=dict, init=False)
    _foreign_media: set[int] | None = attrs.field(default=None, init=False)

    def coerce(self, path: str, reason: str, *, is_routine: bool = False) -> None:
        """Record that something is sent in another form."""
        self._add(LossKind.COERCED, path, reason, is_routine=is_routine)

    def drop(self, path: str, reason: str, *, is_routine: bool = False) -> None:
        """Record that something is not sent, and is lost for good."""
        self._add(LossKind.DROPPED, path, reason, is_routine=is_routine)

    def synthesize(self, path: str, reason: str, *, is_routine: bool = False) -> None:
        """Record that something was inserted that the request did not have."""
        self._add(LossKind.SYNTHESIZED, path, reason, is_routine=is_routine)

    def withhold(self, path: str, reason: str, *, is_routine: bool = False) -> None:
        """Record that a value is withheld from this vendor, but kept for its sender."""
        self._add(LossKind.WITHHELD, path, reason, is_routine=is_routine)

    def set_removed(self, path: str, places: Sequence[int]) -> None:
        """Set the places of contents of a canister that were removed before the translation.

        Losses of the contents after them keep the paths of the original conversation.
        """
        self._removed[path] = places

    def _restore_path(self, path: str) -> str:
        match = _CONTENT_PATH.match(path)
        if match is None or match[1] not in self._removed:
            return path
        place = int(match[2])
        for removed in self._removed[match[1]]:
            place += removed <= place
        return f"{match[1]}.content[{place}]{path[match.end() :]}"

    def _add(self, kind: LossKind, path: str, reason: str, *, is_routine: bool) -> None:
        if self._removed:
            path = self._restore_path(path)
        self.losses.append(Loss(kind=kind, path=path, reason=reason, is_routine=is_routine))

    def omit_hint(self, path: str, reason: str = NO_HINTS) -> None:
        """Record that a cache hint is not sent; the model gets the same request without it."""
        self.losses.append(Loss(kind=LossKind.COERCED, path=path, reason=reason))

    def drop_unknown(
        self,
        native: Mapping[str, Any],
        known: Container[str],
        routine: Container[str] = (),
        path: str = "",
    ) -> None:
        """Record the fields of a client's request that other vendors do not have.

        Args:
            native: The request.
            known: Fields that are translated.
            routine: Fields whose loss is expected.
            path: Path of an object in the request, with a period.
        """
        reason = "other vendors have no field for it"
        for name, value in native.items():
            if name not in known and value is not None:
                self.drop(f"{path}{name}", reason, is_routine=name in routine)

    def omit(self, value: Any, path: str, *names: str, reason: str) -> None:
        """Record the loss of a value's fields that have no counterpart.

        Args:
            path: Path of the value.
            names: Names of the fields. Empty and default values are ignored.
        """
        for name in names:
            value_of_field = getattr(value, name)
            if value_of_field and value_of_field != _find_default(value.__class__, name):
                self.drop(f"{path}.{name}", reason)

    def omit_native(self, native: Native | None, path: str) -> None:
        """Record that native data cannot be sent to any vendor. Raises RequestError.

        Args:
            path: Path of the object with the data.
        """
        if native is not None:
            self._withhold_fields(
                read_native(native, path), path, "this protocol has no such field"
            )

    def admits(
        self, native: Native | None, canister: AnyCanister | None = None
    ) -> TypeGuard[Native]:
        """Return whether there are native data that may be sent to this provider.

        Two vendors may use the same protocol, but the signatures of one are meaningless to the
        other.

        Args:
            canister: The canister with the native data. The canister's origin names the provider of
                the data. Without an origin, the data came with the request of a client of this
                protocol.
        """
        if native is None or native.protocol != self.protocol:
            return False
        origin = canister.origin if canister is not None else None
        return origin is None or self._is_from_provider(origin)

    def admits_execution(self, canister: AnyCanister, path: str) -> bool:
        """Return whether this vendor executed a call; withhold the calls of other vendors."""
        if self.admits(canister.native, canister):
            return True
        self.withhold_execution(path)
        return False

    def withhold_execution(self, path: str) -> None:
        """Record that a call that another vendor executed, or its result, is not sent."""
        self.withhold(path, "only the vendor that executed it can receive it")

    def _is_from_provider(self, origin: Origin) -> bool:
        if origin.protocol != self.protocol and origin.protocol is not None:
            return False
        return not self.provider or origin.provider == self.provider

    def _has_files_of(self, origin: Origin) -> bool:
        return any(origin.provider == provider for provider, _ in self.siblings)

    def _has_files_named(self, native: Native, canister: AnyCanister | None) -> bool:
        """Return whether a file belongs to another interface of this service."""
        origin = canister.origin if canister is not None else None
        if origin is not None:
            return self._is_from_provider(origin) or self._has_files_of(origin)
        return any(native.protocol == protocol for _, protocol in self.siblings)

    def set_conversation(self, canisters: Sequence[AnyCanister]) -> None:
        """Set the whole conversation, which shows to which provider an uploaded file belongs.

        A file belongs to the provider that answered next. If there is no answer after it, it
        belongs to the provider of this request. If its native data name a protocol, the provider
        must use that protocol.
        """
        self._canisters, self._foreign_media = canisters, None

    def _find_foreign_media(self) -> set[int]:
        """Return the Python ids of media whose files were uploaded to another provider."""
        foreign: set[int] = set()
        next_origin: Origin | None = None
        # Backwards, as the next answer determines the provider.
        for canister in reversed(self._canisters):
            next_origin = canister.origin or next_origin
            if (
                next_origin is None
                or self._is_from_provider(next_origin)
                or self._has_files_of(next_origin)
            ):
                continue
            for content in canister.content:
                if not isinstance(content, MEDIA_CLASSES) or content.file_id is None:
                    continue
                if content.native is None or content.native.protocol == next_origin.protocol:
                    # By id, as an equal medium may belong to this provider.
                    foreign.add(id(content))
        return foreign

    def drop_foreign_file(
        self, content: _Medium, path: str, canister: AnyCanister | None = None
    ) -> _Medium | None:
        """Return a medium without a file at another vendor; ``None`` if it has nothing else.

        Args:
            path: Path of the medium, for the loss.
            canister: Canister of the medium.
        """
        if isinstance(content.file_id, UploadedId):
            return attrs.evolve(content, file_id=str(content.file_id))  # without the mark
        native = content.native
        is_foreign = native is not None and not (
            self.admits(native, canister) or self._has_files_named(native, canister)
        )
        if content.file_id is None:
            return content
        if self._foreign_media is None:
            self._foreign_media = self._find_foreign_media()
        if not is_foreign and id(content) not in self._foreign_media:
            return content
        reason = f"the file {content.file_id} is stored by another vendor"
        if content.url is None and content.content_id is None:
            self.withhold(path, reason)
            return None
        self.withhold(f"{path}.file_id", reason)
        return attrs.evolve(content, file_id=None)

    def read_sendable(
        self,
        native: Native | None,
        path: str,
        canister: AnyCanister | None = None,
        *,
        shared: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Return the fields of native data that may be sent; record the others as losses.

        A null means that a value is missing, and is not a loss.

        Args:
            path: Path of the object with the data.
            shared: The fields that have the same meaning in all protocols.

        Raises:
            RequestError: They are not a JSON object.
        """
        if native is None:
            return {}
        fields = read_native(native, path)
        if not fields or self.admits(native, canister):
            return fields
        # The native data of a call's message are treated like those of the call.
        fields = {**(fields.pop(MESSAGE, None) or {}), **fields}
        shared_fields = {name: fields.pop(name) for name in shared if fields.get(name) is not None}
        self._withhold_fields(fields, path, f"only {_describe_owner(native, canister)} can read it")
        return shared_fields

    def _withhold_fields(self, fields: Mapping[str, Any], path: str, reason: str) -> None:
        """Record the loss of the fields with a value: bookkeeping and cache marks separately.

        A cache mark is a loss of form, as the model gets the same request without it.
        """
        routine_fields: dict[str, Any] = {}
        marks: dict[str, Any] = {}
        other_fields: dict[str, Any] = {}
        for name, value in fields.items():
            if is_bookkeeping(name, value, is_request=path == "request"):
                routine_fields[name] = value
            else:
                (marks if name in CACHE_FIELDS else other_fields)[name] = value
        for is_routine, selected in ((False, other_fields), (True, routine_fields)):
            if names := _join_names(selected):
                self.withhold(f"{path}.native", f"{names}: {reason}", is_routine=is_routine)
        if names := _join_names(marks):
            self.coerce(f"{path}.native", f"{names}: {reason}")


def _join_names(fields: Mapping[str, Any]) -> str:
    """Join the names of the fields that have a value, without notes of dialects.

    Some notes contain a name under which their loss is reported.
    """
    names = [name for name, value in fields.items() if value is not None and not is_mark(name)]
    marks = (value for name, value in fields.items() if is_mark(name))
    names += [
        mark[REPORTED_AS] for mark in marks if isinstance(mark, Mapping) and REPORTED_AS in mark
    ]
    return ", ".join(sorted(map(unescape, names)))


@contextlib.contextmanager
def reading_natives(canister: AnyCanister, path: str) -> Iterator[None]:
    """Convert errors caused by invalid native data to errors of the request.

    Native data come from vendors, but may have been edited later. Without native data, the
    exception is a bug of this library, and is not converted.

    Raises:
        RequestError: Native data of the canister or of a content are invalid.
    """
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        natives = (
            canister.native,
            *(getattr(content, "native", None) for content in canister.content),
        )
        if isinstance(error, RequestError) or not any(natives):
            raise
        raise RequestError(
            path=path,
            detail=f"The native data of {path} are invalid there: {error!r}.",
            remedy="Remove the native data; the common fields are sent without them.",
        ) from error


@functools.cache
def _find_default(kind: type[Any], name: str) -> object:
    return getattr(attrs.fields(kind), name).default


def _describe_owner(native: Native, canister: AnyCanister | None) -> str:
    origin = canister.origin if canister is not None else None
    return origin.provider if origin is not None else f"a vendor of {native.protocol}"

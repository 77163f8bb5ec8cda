"""Contents of registry entries: the texts behind ``{{registry:name.content}}``.

A content is part of the task itself, is read from a file in the task's folder (``file:``), or is
fetched from the public web (``https:``) as the ensemble ``fetch`` does it. A task file may come
from a stranger: it cannot be used to read other files, or to access the local network.
"""

from __future__ import annotations

import asyncio
import codecs
import functools
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import attrs

from vibe_llms.exceptions import ConverseError, RequestError, Stage
from vibe_llms.flows.interpolation import Template
from vibe_llms.flows.tasks import CONTENT, RegistryEntry, ResourceRegistry
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.suggestions import end_among
from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.pages.addresses import Resolve, is_public, resolve
from vibe_llms.invocables.pages.getting import PageBounds, get_page, parse_url
from vibe_llms.invocables.pages.texts import is_readable, read_text
from vibe_llms.invocables.refusals import Refusal
from vibe_llms.invocables.shipped.grants import Grants, produce_grant
from vibe_llms.invocables.shipped.opening import open_file, read_whole
from vibe_llms.invocables.threads import run_in_thread

if TYPE_CHECKING:
    from vibe_llms.configuration.classes import Configuration

CONTENT_BYTES: Final = 1_000_000
"""Maximum bytes of a content as UTF-8: some 250,000 tokens, more than most windows hold. A larger
content is refused rather than truncated, because users would not know what is missing."""

PAGE_SECONDS: Final = 30.0
"""Timeout of one page, redirections included."""

CONCURRENCY: Final = 4
"""Maximum number of concurrent fetches."""

SOURCES_ADVICE: Final = (
    "Name a text on the public web (https://\u2026) or in the folder of the task's file "
    "(file:notes.md), or write it into 'content'."
)
"""Advice on available sources, for error messages."""

_FILE: Final = "file:"
_BYTE_ORDER_MARKS: Final = ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def survey_contents(templates: Iterable[Template]) -> frozenset[str]:
    """Return the names of entries whose contents templates use."""
    references = (each for template in templates for each in template.references)
    return frozenset(
        each.name for each in references if each.source == "registry" and each.field == CONTENT
    )


def survey_private_hosts(configuration: Configuration) -> tuple[str, ...]:
    """Return the hosts from which the user permits fetching although they are not public."""
    found: list[str] = []
    for entry in configuration.plugins:
        if entry.table == "ensembles" and entry.is_enabled and entry.is_trusted:
            hosts = entry.settings.get("private_hosts")
            if isinstance(hosts, (list, tuple)):
                found += map(str, hosts)
    return tuple(found)


def find_address_fault(entry: RegistryEntry, folder: Path | None) -> str:
    """Describe why an entry's content is never available, without access; empty if it may be."""
    if entry.content:
        return ""
    address = entry.source_url.strip()
    if address.lower().startswith(_FILE):
        if folder is None:
            return (
                "Its path is relative to the folder of the task's file, but the task has no file."
            )
        return "" if _read_path(address) else "It is not a path such as file:notes.md."
    try:
        parse_url(address, ("https",))
    except Refusal as refusal:
        return str(refusal)
    return ""


def find_file_fault(entry: RegistryEntry, folder: Path | None, *, may_be_created: bool) -> str:
    """Describe why the file of an entry cannot be read; empty if it can, or has no file.

    Does file work.

    Args:
        may_be_created: Whether a missing file may be written before it is needed.
    """
    address = entry.source_url.strip()
    if entry.content or folder is None or not address.lower().startswith(_FILE):
        return ""
    if may_be_created and not (folder / _read_path(address)).exists():
        return ""
    try:
        _read_file(address, folder)
    except Refusal as refusal:
        return str(refusal)
    except RequestError as error:  # such as a path out of the folder
        return str(error)
    return ""


@define(kw_only=True, eq=False)
class RegistryContents:
    """Contents of a registry's entries; each is acquired once, when it is first needed.

    Attributes:
        registry: Registry with the entries.
        folder: Folder of the task's file, from which files may be read; ``None`` without a file.
        bounds: Limits for fetching a page.
        resolve: Resolves the addresses of a host; by default the system does.
        is_allowed: Tells whether connecting to an address is permitted; by default only to public
            ones.
    """

    registry: ResourceRegistry
    folder: Path | None = None
    bounds: PageBounds = PageBounds(schemes=("https",))
    resolve: Resolve = resolve
    is_allowed: Callable[[str], bool] = is_public
    _loaded: dict[str, str] = attrs.field(factory=dict, init=False)
    _locks: dict[str, asyncio.Lock] = attrs.field(
        factory=lambda: defaultdict(asyncio.Lock), init=False
    )
    _slots: asyncio.Semaphore = attrs.field(
        factory=lambda: asyncio.Semaphore(CONCURRENCY), init=False
    )

    async def acquire(self, names: Collection[str]) -> Mapping[str, str]:
        """Return the contents of some entries; unknown ones are fetched concurrently.

        Raises:
            RequestError: Some cannot be acquired; names each with its address, the reason and a
                remedy.
        """
        ordered = sorted(set(names))
        # All errors are reported together, and no fetch is running when this returns.
        found = await asyncio.gather(*map(self._acquire, ordered), return_exceptions=True)
        for each in found:
            if isinstance(each, BaseException) and not isinstance(each, ConverseError):
                raise each
        errors = [each for each in found if isinstance(each, RequestError)]
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise RequestError(
                path="registry",
                detail="\n".join(map(str, errors)),
                stage=Stage.EXECUTE,
            )
        return {name: self._loaded[name] for name in ordered}

    async def _acquire(self, name: str) -> None:
        async with self._locks[name]:  # branches that need the same content wait
            if name not in self._loaded:
                self._loaded[name] = await self._look_up(name)

    async def _look_up(self, name: str) -> str:
        entry = self.registry.find(name)
        if entry is None:
            known = end_among(name, (each.name for each in self.registry.entries))
            raise _refuse(name, f"Unknown entry {name!r} of the registry{known}")
        if entry.content:
            return entry.content
        try:
            if fault := self._find_fault(entry):
                raise Refusal(fault)
            if entry.source_url.strip().lower().startswith(_FILE):
                read = functools.partial(_read_file, entry.source_url.strip(), self.folder)
                return await run_in_thread(read)
            async with self._slots:
                return await self._fetch(entry.source_url)
        except Refusal as refusal:
            detail = f"Cannot load the content of {name!r} ({entry.source_url}): {refusal}"
            raise _refuse(name, detail, SOURCES_ADVICE) from refusal

    def _find_fault(self, entry: RegistryEntry) -> str:
        """Return the fault of an address, if any; none if the bounds admit the address's scheme."""
        is_admitted = entry.source_url.partition(":")[0] in self.bounds.schemes
        return "" if is_admitted else find_address_fault(entry, self.folder)

    async def _fetch(self, address: str) -> str:
        try:
            async with asyncio.timeout(PAGE_SECONDS):
                page = await get_page(
                    address, self.bounds, self.resolve, self.is_allowed, is_readable
                )
                text = await read_text(page)
        except TimeoutError as error:
            message = f"The page did not load within {PAGE_SECONDS:g} seconds."
            raise Refusal(message) from error
        if page.status >= 400:
            raise Refusal(f"The server answered with status {page.status}.")
        if text is None:
            raise Refusal(f"It is not a text ({page.kind}).")
        if page.body.is_cut:
            raise Refusal(_describe_size(self.bounds.page_bytes))
        return _ensure_size(text)


def _read_path(address: str) -> str:
    """Return the path of a ``file:`` address; empty if it has none, or names another host."""
    rest = address[len(_FILE) :]
    if rest.startswith("//"):
        host, _, path = rest[2:].partition("/")
        if host.lower() not in ("", "localhost"):
            return ""
        rest = f"/{path}" if path else ""
    return unquote(rest)


def _read_file(address: str, folder: Path | None) -> str:
    """Read a file beneath the folder. Raises Refusal."""
    assert folder is not None
    # Opened by descriptors, as models' files are, so that no link leads out of the folder.
    grants = Grants("task", [produce_grant(os.fspath(folder), False, Path.cwd())])
    try:
        grants.open()
    except ConverseError as error:
        raise Refusal(f"Cannot open the task's folder {folder}.") from error
    try:
        with grants.walk(_read_path(address)) as target, open_file(target) as (descriptor, _):
            data = read_whole(target, descriptor, CONTENT_BYTES, InvocationContext())
    except OSError as error:
        raise Refusal(f"Cannot read it: {error.strerror}.") from error
    finally:
        grants.close()
    return _decode(data)


def _decode(data: bytes) -> str:
    """Decode the text of a file. Raises Refusal if it is not text."""
    codec = next((codec for mark, codec in _BYTE_ORDER_MARKS if data.startswith(mark)), "utf-8-sig")
    try:
        text = data.decode(codec)
    except UnicodeDecodeError as error:
        raise Refusal(f"It is not UTF-8 text (byte {error.start}).") from error
    if "\0" in text:
        raise Refusal("It is not text: it contains the character NUL.")
    return text


def _ensure_size(text: str) -> str:
    if len(text.encode("utf-8", "surrogatepass")) > CONTENT_BYTES:
        raise Refusal(_describe_size(CONTENT_BYTES))
    return text


def _describe_size(limit: int) -> str:
    return f"It is larger than the limit of {limit} bytes."


def _refuse(name: str, detail: str, remedy: str = "") -> RequestError:
    path = f"registry:{name}.{CONTENT}"
    return RequestError(path=path, detail=detail, remedy=remedy, stage=Stage.EXECUTE)

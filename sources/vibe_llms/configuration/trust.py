"""Settings that a project folder may make, and the record of trusted folders.

A project's file comes with the folder, perhaps from a stranger. Without trust it may only choose
among what the user has configured: the model by name, the controls, and providers and ensembles not
to load. Everything that could run code, open a file or connect to another address has no effect:
modules, packages, settings of providers and ensembles, MCP servers, directories (the data directory
has plugins and this record), attributes of models, the approver of calls, and the store of
conversations. Nor may it disable a plugin of the user, which may observe or approve calls. Limits
protect the user, so only the user may set them.

Trust belongs to a folder and to the digest of its file, so that any change requires it again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import tomli

from vibe_llms.configuration.classes import Setting, TrustRequest
from vibe_llms.configuration.definitions import FREE_TABLES, Definition
from vibe_llms.foundation.files import read_file, replace_file, resolve_links

if TYPE_CHECKING:
    from vibe_llms.plugins.specification.users import Consent

_RECORD = "trust.toml"
_DISABLEABLE_TABLES = ("providers", "ensembles")
"""Tables whose entries a project may disable; those of ``[plugins]`` it may not, as these observe
and approve calls.
"""


ADDRESSES: Final = frozenset(
    {"model", "embedder", "illustrator", "ranker", "speaker", "transcriber"}
)
"""Settings with the address of a model."""


def is_harmless(
    setting: Setting, definitions: Mapping[str, Definition], plugins: Collection[str] = ()
) -> bool:
    """Return whether a project folder may make this setting before it is trusted.

    Args:
        definitions: The known settings.
        plugins: The names of the user's own ``[plugins]``.
    """
    table, *rest = setting.path
    # A model can be the path of a file, which would be opened for an untrusted folder.
    if not rest and table in ADDRESSES:
        return not _may_name_file(setting.value)
    if table in FREE_TABLES:
        return True
    if setting.path == ("plugins", "disabled"):
        # A plugin of the user may supervise calls; a stranger must not disable it.
        return not any(name in plugins for name in setting.value)
    if table in _DISABLEABLE_TABLES and len(rest) == 2 and rest[1] == "enabled":
        # Only to disable: "enabled = true" would load what the user has disabled.
        return setting.value is False
    definition = definitions.get(setting.name)
    return definition is not None and definition.is_harmless


def _may_name_file(model: str) -> bool:
    has_suffix = Path(model).suffix[1:].isalpha()  # a version such as "claude-4.5" has digits
    return has_suffix or "/" in model or "\\" in model


def is_trusted(request: TrustRequest) -> bool:
    """Return whether the user trusts this folder with exactly this file."""
    # The digest of the file when this configuration was read, as the file may have changed since.
    return _read_record(request.data_directory).get(str(request.folder)) == request.digest


def grant_trust(request: TrustRequest) -> None:
    """Record that the user trusts the folder with the file as it was read."""
    folders = _read_record(request.data_directory)
    _write_record(request.data_directory, {**folders, str(request.folder): request.digest})


def revoke_trust(folder: Path, data_directory: Path) -> bool:
    """Remove the trust in a folder; return whether there was any."""
    folders = _read_record(data_directory)
    found = folders.pop(str(resolve_links(folder)), None) is not None
    if found:
        _write_record(data_directory, folders)
    return found


def ask_for_trust(request: TrustRequest, consent: Consent) -> bool:
    """Ask the user to trust the folder with its file; record a yes.

    The question names the file and shows all of its settings, except for secrets. The configuration
    with the request does not change: load it again after a yes.
    """
    from vibe_llms.configuration.redaction import redact_for_trust  # needed for a question only

    settings = "; ".join(f"{each.name} = {redact_for_trust(each)!r}" for each in request.settings)
    question = f"{request.file} sets: {settings}. Do you trust the folder {request.folder}?"
    has_agreed = consent.ask(f"trust:{request.folder}", question)
    if has_agreed:
        grant_trust(request)
    return has_agreed


def _read_record(data_directory: Path) -> dict[str, str]:
    path = data_directory / _RECORD
    try:
        tree = tomli.loads(read_file(path).decode())
    # Other errors are raised: an unreadable record is not an empty one.
    except FileNotFoundError:
        return {}
    except ValueError as error:
        from vibe_llms.exceptions import CorruptionError  # needed after damage only

        raise CorruptionError(
            path=str(path),
            detail=f"Cannot read the record of trusted folders: {error}.",
            remedy="Delete it; you will be asked about every folder again.",
        ) from error
    folders = tree.get("folders", {})
    return {str(folder): str(digest) for folder, digest in folders.items()}


def _write_record(data_directory: Path, folders: Mapping[str, str]) -> None:
    import tomli_w  # only a decision about trust writes

    data_directory.mkdir(parents=True, exist_ok=True)
    replace_file(data_directory / _RECORD, tomli_w.dumps({"folders": dict(folders)}).encode())

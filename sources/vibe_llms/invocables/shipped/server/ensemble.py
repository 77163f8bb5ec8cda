"""Ensemble of one server tool, whose settings are the tool's options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.exceptions import ConfigurationError, RequestError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.invocables.ensembles import FunctionsEnsemble
from vibe_llms.invocables.mcp.secret_texts import SecretText
from vibe_llms.messages.server_tools import ServerTool
from vibe_llms.tables.reading import read_table


@frozen(kw_only=True)
class _Secrets:
    """The setting that may be in an environment variable or a file."""

    authorization: SecretText


def produce_ensemble(name: str, settings: Mapping[str, Any]) -> FunctionsEnsemble:
    """Make the ensemble.

    Args:
        name: The name of the ensemble, which is also the label of an MCP server without one.
        settings: Options of the tool, and its name as ``tool`` if the ensemble has another name.

    Raises:
        ConfigurationError: The tool or an option is invalid.
    """
    options = dict(settings)
    tool = options.pop("tool", name)
    if tool == "mcp":
        options.setdefault("label", name)
    place = f"ensembles.{name}"
    if "authorization" in options:
        secrets = read_table(_Secrets, {"authorization": options["authorization"]}, place)
        options["authorization"] = secrets.authorization.reveal()
    try:
        return FunctionsEnsemble(name, [ServerTool(tool, **options)])
    except TypeError as error:  # an unknown option
        raise ConfigurationError.at(place, f"Invalid server tool: {error}.") from error
    except RequestError as error:
        place = f"{place}.{error.path}" if error.path in options else place
        raise ConfigurationError.at(place, f"{error.detail} {error.remedy}".strip()) from error

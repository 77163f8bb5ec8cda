"""What a factory of a plugin raises, as an error that names the plugin."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vibe_llms.configuration.classes import PluginEntry
from vibe_llms.exceptions import ConverseError, PluginError


@contextmanager
def explain_factory(entry: PluginEntry) -> Iterator[None]:
    """Says of a foreign error whose factory raised it."""
    try:
        yield
    except ConverseError:
        raise
    except (Exception, SystemExit) as error:
        from vibe_llms.plugins.loading import describe_error

        raise PluginError(
            plugin=entry.name,
            detail=f"The {entry.table.removesuffix('s')} {entry.name!r} ({entry.module}) cannot "
            f"be made: {describe_error(error)}.",
        ) from error

"""Values of options: addresses of models, and ``NAME=VALUE`` pairs."""

from __future__ import annotations

from typing import Any

import click


def compose_address(model: str | None, provider: str | None) -> str | None:
    """Join ``--provider`` and ``--model`` to one address; ``None`` without both options.

    Raises:
        click.UsageError: They contradict each other, or are empty.
    """
    if model == "" or provider == "":
        raise click.UsageError("The name of the model is empty.")
    if provider is None:
        return model
    if model is None:
        return provider
    if model.startswith(f"{provider}:"):
        return model
    if ":" in model and model.partition(":")[0].isidentifier():
        raise click.UsageError(
            f"--provider {provider} and --model {model} name different providers."
        )
    return f"{provider}:{model}"


def parse_controls(
    assignments: tuple[str, ...], *, kind: str = "control", example: str = "temperature=0.2"
) -> dict[str, Any]:
    """Parse ``name=value`` pairs: values are JSON if they are valid JSON, else text.

    Args:
        kind: Kind of the pairs, for errors.
        example: An example pair.

    Raises:
        click.UsageError: ``=`` is missing, or a name is duplicate.
    """
    controls: dict[str, Any] = {}
    if not assignments:
        return controls
    import json

    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        name = name.strip()
        if not equals or not name:
            raise click.UsageError(
                f"Invalid {kind} {assignment!r}. Write NAME=VALUE, such as {example}."
            )
        if name in controls:
            raise click.UsageError(f"The {kind} {name!r} is given twice.")
        try:
            controls[name] = json.loads(text)
        except ValueError:
            controls[name] = text
    return controls

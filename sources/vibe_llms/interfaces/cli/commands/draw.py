"""``vibe draw``: images drawn from a description, or edited."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from vibe_llms.interfaces.cli.access import load_application, warn_untrusted
from vibe_llms.interfaces.cli.media import choose_paths, read_medium, write_media, write_pipe
from vibe_llms.interfaces.cli.options import (
    MODEL,
    command,
    download_option,
    json_option,
    strict_option,
)
from vibe_llms.interfaces.cli.output import write_json
from vibe_llms.interfaces.cli.texts import describe_call, gather_prompt, report_result

if TYPE_CHECKING:
    from vibe_llms.messages.contents import ImageContent

_FORMATS: Final = {".jpg": "jpeg", ".jpeg": "jpeg", ".webp": "webp"}
"""File formats by suffix; for any other suffix, vendors return PNG."""


@command("draw")
@click.argument("prompt", required=False)
@click.option(
    "--output",
    "-o",
    type=click.Path(allow_dash=True),
    help="File; several images are numbered.",
)
@click.option(
    "--model",
    "-m",
    type=MODEL,
    help="Illustrator, as provider:model; default: setting `illustrator`.",
)
@click.option(
    "--image",
    "-i",
    "images",
    multiple=True,
    type=click.Path(allow_dash=True),
    help="Image to edit. Repeatable.",
)
@click.option("--mask", type=click.Path(), help="Image whose transparent areas are edited.")
@click.option(
    "--count", "-n", type=click.IntRange(min=1), default=1, help="Number of images (default: 1)."
)
@click.option("--size", help="Width and height, such as 1024x1536.")
@click.option("--quality", help="Quality, such as high.")
@click.option("--background", help="Background, such as transparent.")
@click.option("--format", "file_format", help="File format: png, jpeg or webp.")
@strict_option
@json_option
@download_option
async def draw(prompt: str | None, images: tuple[str, ...], **options: Any) -> None:
    """Draw an image from a description, or edit images.

    PROMPT describes the image or the change; without it, the text is read from standard input:

    \b
        vibe draw "A lighthouse at dusk" -o lighthouse.png
        vibe draw "Make it winter" -i lighthouse.png -o winter.png

    Without --output, the image is written to standard output, which must be a pipe or a file.
    """
    if prompt is None and "-" in images:
        raise click.UsageError("Pass the prompt as an argument: standard input is the image.")
    text = gather_prompt(prompt)
    output: str | None = options["output"]
    paths = choose_paths(output, options["count"], as_json=options["as_json"])
    sources = [_read_image(path) for path in images]
    mask = None if options["mask"] is None else _read_image(options["mask"])
    application = load_application(yes=options["yes"])
    warn_untrusted(application.configuration)
    from vibe_llms.instruments.illustrators import Illustrator

    suffix = Path(output or "").suffix.lower()
    settings = {name: options[name] for name in ("size", "quality", "background", "strict")}
    async with (
        application,
        Illustrator(
            options["model"] or "",
            application=application,
            file_format=options["file_format"] or _FORMATS.get(suffix),
            **settings,
        ) as illustrator,
    ):
        illustration = await illustrator.draw(text, sources, mask=mask, count=options["count"])
    shown = write_media(illustration, paths)
    if options["as_json"]:
        write_json({**describe_call(illustration), "images": shown})
    elif not paths and illustration[0].data is not None:
        write_pipe(illustration[0].data)
    report_result(illustration, ", ".join(paths) or "1 image")


def _read_image(path: str) -> ImageContent:
    from vibe_llms.messages.contents import ImageContent

    content = read_medium(path, ImageContent)
    assert isinstance(content, ImageContent)
    return content

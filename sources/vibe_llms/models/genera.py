"""Genera: the purposes of models."""

from __future__ import annotations

import enum


class Genus(enum.StrEnum):
    """The purpose of a model.

    A ``converser`` answers in a conversation, an ``embedder`` turns texts into vectors, an
    ``illustrator`` draws images, a ``moderator`` finds harmful texts, a ``ranker`` orders texts by
    their relevance to a query, a ``speaker`` speaks texts, a ``transcriber`` writes down speech.
    """

    CONVERSER = "converser"
    EMBEDDER = "embedder"
    ILLUSTRATOR = "illustrator"
    MODERATOR = "moderator"
    RANKER = "ranker"
    SPEAKER = "speaker"
    TRANSCRIBER = "transcriber"

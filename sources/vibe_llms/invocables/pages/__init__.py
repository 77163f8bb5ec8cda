"""Web pages as text: fetched only from the public network, HTML converted to Markdown.

Used by the ensemble ``fetch`` for models, and by task flows for prompts.
"""

"""Pages of the web as text: fetched from the public network alone, HTML written as Markdown.

The ensemble ``fetch`` gives a model these, and task flows put them into prompts.
"""

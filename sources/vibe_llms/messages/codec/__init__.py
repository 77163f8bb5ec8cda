"""Canisters, requests, responses and errors as JSON, and back: equal values, equal bytes.

May import the messages, attrs and the errors; msgspec and cattrs when a name is first used.
Must not know files: a store decides where lines are written and removes inline bytes first.
"""

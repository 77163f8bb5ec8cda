"""Structured output: convert the answers of models to values of your own types.

A parser derives a JSON Schema from a type, prepares a request that asks for an answer in that form,
in the strongest mode that the model supports, and converts the answer to a value, or reports its
errors. May import the same packages as the instruments. Sends nothing: the caller sends the request
and passes the answer to the parser.
"""

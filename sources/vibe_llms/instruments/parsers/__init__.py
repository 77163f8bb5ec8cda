"""Structured output: values of your own types out of what models answer.

A parser derives a JSON Schema from a type, asks a model to answer in that form, in the strongest
mode that it supports, and turns the answer into a value, or reports its errors. May import what
instruments may. Sends nothing: the caller passes the answers in.
"""

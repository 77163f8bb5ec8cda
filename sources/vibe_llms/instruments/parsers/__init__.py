"""Structured output: values of your own types out of what models answer.

A parser derives a JSON Schema from a type, brings a model to answer in that form by the way which
promises most with it, and makes a value of the answer, or says what is wrong with it. May import
what instruments may. Refuses to send anything: whoever asks hands the answers in.
"""

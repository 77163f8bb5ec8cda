"""Tables of settings, from TOML, JSON or plain data: one reader, which reports all mistakes.

``kinds`` has the types of values, ``reading`` reads plain tables, ``annotations`` derives the kinds
of a table from an attrs class, and ``documents`` reads files and knows the line of each key. May
import the errors and suggestions. Must not know the subject of any table.
"""

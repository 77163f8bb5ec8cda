"""What people and programs write as tables: read one way, with all mistakes at once.

``kinds`` says what a value must be, ``reading`` reads plain tables, ``annotations`` says what the
table of an attrs class may have, and ``documents`` reads files and knows the line of each key. May
import the errors and suggestions. It refuses to know what any table is about.
"""

"""Strong and weak scaling: pure functions from the loaded records to tables in base units.

``points`` says which records may be compared, ``split`` which of them make a series, ``titles``
what it is called; ``tables`` works it out, ``findings`` says what it means.
"""

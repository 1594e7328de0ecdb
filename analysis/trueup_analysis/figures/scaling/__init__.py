"""Strong and weak scaling: pure functions from the loaded records to tables in base units.

``points`` finds the records that may be compared, ``split`` the ones that make a series, and
``titles`` names it; ``tables`` computes it, and ``findings`` states its meaning.
"""

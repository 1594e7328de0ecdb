"""``trueup health``: measurements against the figures of healthy nodes, and against each other.

``quantity`` gives figures their unit's dimension; ``expectations`` reads the catalog; ``verdicts``
judges each figure; ``fleet`` compares the nodes of one size and reduces pairs to whom they blame.
"""

"""The Python API of trueup: gathered records as pandas DataFrames.

    import trueup

    results = trueup.load("results")              # the last run; run="all" takes every run
    results.figures()                             # one row a measured figure
    results.cost(region="eastus")                 # the table of `trueup cost`
    results.compare("before", "last")             # what changed between two runs
    results.arrow("cost", region="eastus")        # a table as Arrow

Each table holds base units (bytes, seconds, byte/s, flop/s), unrounded. ``frame.attrs["units"]``
names the unit of each column that has one; a column ``unit`` names that of each row.
``frame.attrs["notes"]`` holds the sentences that the command prints below the table.

A known error (no such run, no price, a file that is no record) is a ``TrueupError`` with one
sentence. Files that cannot be read are in ``Results.unread``, and never a reason to stop while
others can be read.
"""

from trueup_node.errors import BadInput, ParseError, TrueupError

from ._results import Results, load

__all__ = ["BadInput", "ParseError", "Results", "TrueupError", "load"]

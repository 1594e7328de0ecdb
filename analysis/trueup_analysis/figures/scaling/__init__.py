"""Strong and weak scaling: pure functions from the loaded frames to tables in base units.

``points`` says which records may be compared, ``split`` which of them make a series, ``titles``
what it is called; ``tables`` works it out, ``findings`` says what it means.
"""

from ..fits import Fit
from .points import host_family
from .split import axis
from .tables import Series, capital, every_series, left_out, series

__all__ = ["Fit", "Series", "axis", "capital", "every_series", "host_family", "left_out", "series"]

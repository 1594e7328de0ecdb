"""The report's plots, drawn once by matplotlib: PNG for papers, SVG that follows the page's theme.

Every colour comes from ``PALETTE``. A PNG keeps its light values; in the SVG each becomes a CSS
variable of the page, so that one drawing serves the light, the dark and the printed page. A
marker, a dash or a number repeats the meaning of each colour. Values arrive in the units that the
axis titles name.
"""

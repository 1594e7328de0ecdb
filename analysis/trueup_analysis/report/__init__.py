"""The report: one HTML file that needs nothing else, its plots as PNG and its tables as CSV.

``page.gather`` makes a ``Page`` of the loaded records, with a module for each section;
``render.html`` writes it; ``publish`` puts the files in place.
"""

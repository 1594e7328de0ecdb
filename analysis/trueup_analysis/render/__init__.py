"""Formats, one file each. What a figure looks like in a column is the sheet's."""

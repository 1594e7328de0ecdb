"""Formats, one file each. The sheet decides how a column shows a figure."""

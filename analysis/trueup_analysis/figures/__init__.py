"""Figures from the records: pure functions from frames and cases to values in base units."""

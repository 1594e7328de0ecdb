"""What follows from the records: pure functions from frames and cases to figures in base units."""

"""Results that others published: rows with source, commit and date, and the nearest of them."""

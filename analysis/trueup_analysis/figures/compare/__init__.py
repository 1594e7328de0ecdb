"""Two sets of records beside each other: which figures changed, and what changed with them."""

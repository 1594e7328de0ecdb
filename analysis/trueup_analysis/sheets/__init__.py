"""Input of every format: figures as columns and rows, with the sentences below them."""

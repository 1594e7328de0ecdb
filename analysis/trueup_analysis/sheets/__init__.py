"""What every format renders: figures as columns and rows, with the sentences below them."""

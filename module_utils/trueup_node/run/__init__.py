"""How a case is started and ended."""

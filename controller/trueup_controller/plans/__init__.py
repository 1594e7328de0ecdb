"""The plan of each role: module ``<role>``, of a benchmark ``<tool>``."""

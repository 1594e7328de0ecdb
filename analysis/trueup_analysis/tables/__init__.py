"""The tables of commands, for the command line and for the Python API ``trueup``."""

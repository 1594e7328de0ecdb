"""The analysis behind the command ``trueup``: records in; tables and one report out."""

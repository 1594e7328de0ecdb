"""The analysis behind the command ``trueup``: records in; scaling, cost and reference tables and one report out."""

"""Tools that only other people run, a room each; ``trueup_analysis.rooms`` finds them."""

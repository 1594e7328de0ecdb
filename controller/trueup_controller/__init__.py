"""The controller's half of trueup: code that no node imports."""

"""The benchmark blob_copy: its output's parser (output) and how its figures are shown (view)."""

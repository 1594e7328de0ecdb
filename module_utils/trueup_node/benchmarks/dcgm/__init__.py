"""The benchmark dcgm: the parser of dcgmi diag (output), its cases, and how figures are shown."""

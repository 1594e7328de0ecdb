"""The benchmark dcgm: what dcgmi diag prints (output), its cases, and how figures are shown."""

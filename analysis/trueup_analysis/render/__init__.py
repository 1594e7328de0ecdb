"""Units, rounding and formats: one file a format. Nothing outside this package rounds a figure."""

"""``trueup advise``: the VM size and the number of nodes for a piece of work, from measurements.

A kind of work (``kinds/``) estimates how long a size and number of nodes takes, as a range with its
evidence; ``answers`` prices the estimates and ranks them; ``backtest`` predicts each published
result from the others, which is where the width of a range comes from. ``services`` says which
service of Azure fits.
"""

"""One file per command. Shared: ``options`` declares options, ``output`` writes results.

Imports of the analysis stand inside the commands: numpy, pyarrow and matplotlib take half a second,
``trueup --help`` a tenth.
"""

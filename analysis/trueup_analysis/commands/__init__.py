"""One file a command. What several share: ``options`` declares, ``output`` reads and writes.

Imports of the analysis stand inside the commands: numpy, pyarrow and matplotlib take half a second,
``trueup --help`` a tenth.
"""

"""What lscpu, ibstat and nvidia-smi print of a node, understood here and nowhere else.

Each has ``parse_<tool>(text)``: frozen dataclasses, or ParseError with the line. What benchmarks
print is understood in their rooms, ``benchmarks/<tool>/``.
"""

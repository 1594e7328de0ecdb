"""The program behind `make mutants`: which faults it makes, and what the tests are told of them."""

from __future__ import annotations

import ast

import mutants
import pytest


@pytest.mark.parametrize(
    ("source", "made"),
    [
        ("a < 1", ["a <= 1", "a >= 1", "a < 2"]),
        (
            "a is None and b in c",
            ["a is None or b in c", "a is None and b not in c", "a is not None and b in c"],
        ),
        ("a * -b", ["a / -b"]),
        ("x += 2", ["x -= 2", "x += 3"]),
        ("f(True)", ["f(False)"]),
        ("a if b else c", ["a if not b else c"]),
        ("[a for a in b if a]", ["[a for a in b if not a]"]),
        ("for a in b:\n    pass", ["for a in ():\n    pass"]),
        ("try:\n    a\nexcept E:\n    b", ["try:\n    a\nexcept ():\n    b"]),
        ("zip(a, b, strict=True)", []),
        # What is text, type or declaration is left alone.
        ("'%s' % a + 'b'", []),
        ("@c(frozen=True)\nclass A:\n    a: X | Y", []),
        ("if TYPE_CHECKING:\n    import a", []),
    ],
)
def test_the_faults_of_a_line(source: str, made: list[str]) -> None:
    found = []
    for number in range(len(mutants.faults(ast.parse(source)))):
        tree = ast.parse(source)
        mutants.faults(tree)[number].apply()
        found.append(ast.unparse(ast.fix_missing_locations(tree)))
    assert sorted(found) == sorted(made)


def test_every_room_has_tests() -> None:
    rooms = mutants.all_rooms()
    assert [path for path, tests in rooms.items() if not tests] == []
    # Whatever a room's files are called by now.
    rooms_of = ("affinity", "record", "resume", "cost", "scaling", "verdicts", "fleet")
    assert [name for name in rooms_of if not any(name in path for path in rooms)] == []
    assert "module_utils/trueup/benchmarks/gemm/output.py" in rooms

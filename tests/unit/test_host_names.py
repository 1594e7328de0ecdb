"""Which names of an inventory can be nodes' names."""

from __future__ import annotations

import pytest
from trueup_controller import host_names


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        *(("a/b", "'a/b'"), ("-n", "'-n'"), ("..", "'..'"), (".", "'.'"), ("", "''")),
        *(("a\nb", r"'a\nb'"), ("a\n", r"'a\n'"), ("nodé", "'nodé'"), ("a b", "'a b'")),
        *(("a\x00b", r"'a\x00b'"), ("::1", "'::1'"), ("a{{ 1 }}", "'a{{ 1 }}'")),
        ("n" * 129, f"'{'n' * 60}'... (129 characters)"),
        ("\u0430lpha", "'\u0430lpha'"),
    ],
)
def test_a_name_that_files_cannot_have(name: str, shown: str) -> None:
    [sentence] = host_names.problems([name, "other"])
    assert sentence.startswith(f"{shown} in the inventory cannot be a node's name")
    assert ("ansible_host" in sentence, "\n" in sentence) == (True, False)


def test_names_that_differ_in_case_alone() -> None:
    [sentence] = host_names.problems(["Node1", "node1", "node2"])
    assert sentence.startswith("'Node1' and 'node1' in the inventory differ in upper and lower")
    assert host_names.problems(["n1", "n1"]) == []

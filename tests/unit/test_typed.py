"""Documents as models: the sentence on a mismatch."""

from __future__ import annotations

import datetime as dt
import re
from typing import Annotated, Any, Literal

import msgspec
import pytest
import yaml
from ansible._internal._yaml._loader import AnsibleInstrumentedLoader
from helpers import parametrized
from hypothesis import given
from hypothesis import strategies as st
from trueup_controller.typed import Source, typed, with_sources
from trueup_node.errors import BadInput


class Cat(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="cat"):
    lives: Annotated[int, msgspec.Meta(ge=1)]


class Dog(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="dog"):
    name: Annotated[str, msgspec.Meta(min_length=2, description="a dog's name")]


class Least(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    least: float


class Farm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    size: Literal["small", "large"]
    animals: list[Cat | Dog] = []
    fields: dict[str, Least | list[str] | bool] = {}
    pattern: re.Pattern[str] | None = None
    opened: str = ""
    closed: dt.date | None = None
    place: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.opened == "never":
            raise ValueError("a farm was opened once")


FARM: dict[str, Any] = {"size": "small"}


@parametrized(("document", "sentence"))
def test_a_mismatch_is_a_sentence(document: Any, sentence: str) -> None:
    with pytest.raises(BadInput) as refused:
        typed(document, Farm, "farm.yml")
    assert str(refused.value).startswith(f"farm.yml: {sentence}")


def test_dates_of_yaml_are_texts_and_dates() -> None:
    day = dt.date(2026, 11, 20)
    farm = typed({**FARM, "opened": day, "closed": day}, Farm, "farm.yml")
    assert (farm.opened, farm.closed) == ("2026-11-20", day)


def test_texts_are_numbers_where_that_is_chosen() -> None:
    assert typed({"least": "1e9"}, Least, "x", strict=False).least == 1e9
    with pytest.raises(BadInput, match=r"^x: least is '1e9': it must be a number$"):
        typed({"least": "1e9"}, Least, "x")


def test_a_document_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(BadInput, match=r"^x: \[0\] is \[\[.*it must be a mapping"):
        typed(endless, list[Least], "x")


class Row(msgspec.Struct, frozen=True):
    source: Source


class Rows(msgspec.Struct, frozen=True):
    sources: dict[str, Source]
    rows: list[Row]


def test_rows_have_the_sources_that_they_name() -> None:
    stated = {
        "a": {"text": "A", "date": "2026", "mark": "verified"},
        "b": {"text": "B", "date": "1"},
    }
    read = with_sources({"sources": stated, "rows": [{"source": "b"}]}, Rows, "x")
    assert [str(row.source) for row in read.rows] == ["B, read 1"]
    assert {name: str(source) for name, source in read.sources.items()} == {
        "a": "A (verified, 2026)",
        "b": "B, read 1",
    }
    with pytest.raises(BadInput, match=r"^x: rows\[0\]\.source: there is no source 'c'"):
        with_sources({"sources": stated, "rows": [{"source": "c"}]}, Rows, "x")


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
_MEMBERS = st.sampled_from([*Farm.__struct_fields__, "kind", "lives", "name", "least", "x"])
_ROWS = st.dictionaries(_MEMBERS, _VALUES | st.sampled_from(["cat", "dog", "small"]), max_size=4)


@given(st.dictionaries(_MEMBERS, _VALUES | _ROWS | st.lists(_ROWS, max_size=3), max_size=5))
def test_any_document_is_a_model_or_a_sentence(document: Any) -> None:
    try:
        ending = type(typed(document, Farm, "farm.yml")).__name__
    except BadInput as error:
        ending = str(error).partition(" ")[0]
    assert ending in ("Farm", "farm.yml:", "farm.yml")


def test_values_of_an_inventory_are_read_as_plain_ones() -> None:
    """Ansible's classes note where a value came from; msgspec knows plain values only."""
    farm = yaml.load(
        "size: small\nanimals: [{kind: dog, name: Rex}]\n"
        "fields: {north: {least: 2.5}, south: true}\n",
        Loader=AnsibleInstrumentedLoader,
    )
    assert {type(farm), type(farm["size"])} & {dict, str} == set()
    read = typed(farm, Farm, "an inventory")
    assert read == Farm(
        size="small", animals=[Dog(name="Rex")], fields={"north": Least(least=2.5), "south": True}
    )
    assert type(read.size) is str

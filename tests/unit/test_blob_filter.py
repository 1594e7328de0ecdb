"""The role's cap is the module's."""

from __future__ import annotations

from trueup_blob import blob_cap


def test_the_article_has_eight_copies_below_twenty_gigabits() -> None:
    assert blob_cap(8, 20000, 2300) == {"cap_mbps": 2300.0, "problem": ""}
    assert blob_cap(8, 20000) == {"cap_mbps": 2400.0, "problem": ""}


def test_what_would_be_throttled_is_a_sentence_with_the_mend() -> None:
    assert blob_cap(8, 20000, 2500) == {
        "cap_mbps": 0.0,
        "problem": "8 copies of 2500 Mb/s are 20 Gb/s, and the account takes 20 Gb/s: it would"
        " throttle them; cap each at 2400 Mb/s.",
    }
    assert blob_cap(0, 20000)["problem"] == "copies 0 is not a positive number."
    assert "not a positive number" in blob_cap(8, 20000, float("nan"))["problem"]

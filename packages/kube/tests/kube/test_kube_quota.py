"""Limits for work at the same time: in all, and per key."""

import pytest

from pykruise.kube.control.quota import FullError, Quota


def test_one_key_cannot_use_all_slots() -> None:
    quota = Quota(3, most_of_one=2)
    with quota.place("a"), quota.place("a"):
        assert (quota.is_full("a"), quota.is_full("b")) == (True, False)
        with pytest.raises(FullError, match="the limit of 2 for a is reached"), quota.place("a"):
            pass
        with quota.place("b"), pytest.raises(FullError, match="the limit of 3 is reached"), quota.place("c"):
            pass
        with quota.place("c"):
            pass
    with quota.place("a"):
        pass


def test_a_slot_is_free_again_even_after_an_error() -> None:
    quota = Quota(1, most_of_one=1)
    with pytest.raises(ZeroDivisionError), quota.place("a"):
        raise ZeroDivisionError
    with quota.place("a"):
        pass

"""Hashes and random suffixes."""

import random

import pytest

from pykruise.kube.values.hashing import (
    ALPHABET,
    draw_suffix,
    encode_safely,
    hash_fnv32,
    hash_fnv32a,
    hash_text,
)


@pytest.mark.parametrize(
    ("data", "item", "one_a"),
    [(b"", 2166136261, 2166136261), (b"a", 84696446, 3826002220), (b"foobar", 837857890, 3214735720)],
)
def test_fnv_gives_the_published_values(data: bytes, item: int, one_a: int) -> None:
    assert hash_fnv32(data) == item
    assert hash_fnv32a(data) == one_a


def test_the_hash_of_volume_claim_templates_is_fnv_1a_of_their_bytes_as_text() -> None:
    """cloneset 6.3, test vectors"""
    # given the JSON of no templates and of one
    none = b"null"
    data = (
        b'[{"metadata":{"name":"pvc-1","creationTimestamp":null},"spec":{"accessModes":["ReadWriteOnce"],'
        b'"resources":{"limits":{"storage":"2Gi"},"requests":{"storage":"1Gi"}}},"status":{}}]'
    )

    # when
    def hashed(text: bytes) -> int:
        return hash_fnv32a(f"([]uint8)[{' '.join(map(str, text))}]".encode())

    # then
    assert hashed(none) == 86995377
    assert hashed(data) == 1129974074


def test_safe_encoding_maps_each_byte_by_its_number_modulo_27() -> None:
    # given: "0" is 48, and 48 mod 27 is 21
    assert ALPHABET[21] == "4"
    # then
    assert encode_safely("0123456789") == encode_safely(b"0123456789") == "456789bcdf"
    assert encode_safely("") == ""
    assert hash_text(4294967295) == encode_safely("4294967295")


def test_a_suffix_is_five_characters_of_the_alphabet_and_repeats_with_the_seed() -> None:
    # when
    first, again = (draw_suffix(random.Random(7)) for _ in range(2))
    # then
    assert first == again
    assert len(first) == 5
    assert set(first) <= set(ALPHABET)
    assert len(draw_suffix(random.Random(7), 10)) == 10
    assert len({draw_suffix(random.Random(seed)) for seed in range(200)}) > 190

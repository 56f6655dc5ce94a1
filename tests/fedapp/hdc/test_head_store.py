"""Heads of many clients, kept in memory or read anew."""

import numpy as np
import pytest

from fedapp.hdc.head_store import BLOCK, Heads

SHAPE = (3, 4)


class Store:
    """Heads by client; says how often each was read."""

    def __init__(self, clients, missing=()):
        rng = np.random.default_rng(0)
        self.heads = {c: rng.standard_normal(SHAPE, dtype=np.float32) for c in clients}
        self.missing = set(missing)
        self.reads = []

    def read(self, clients):
        for client in clients:
            if client not in self.missing:
                self.reads.append(client)
                yield client, self.heads[client]


def size(heads):
    return heads * 4 * SHAPE[0] * SHAPE[1]


@pytest.mark.parametrize("kept", [0, 1, 3, 5, 100])
def test_whatever_is_kept_the_heads_are_the_same(kept):
    store = Store([4, 2, 9, 7, 5])
    heads = Heads(store.read, [4, 2, 9, 7, 5], limit=size(kept))

    assert heads.clients == [2, 4, 5, 7, 9]
    assert (len(heads), heads.shape) == (5, SHAPE)
    for _ in range(2):
        found = np.stack(list(heads.each()))
        np.testing.assert_array_equal(found, [store.heads[c] for c in heads.clients])


def test_what_is_kept_is_read_once_and_the_rest_each_time():
    store = Store(range(4))
    heads = Heads(store.read, range(4), limit=size(3))
    for _ in range(2):
        list(heads.each())

    assert store.reads == [0, 1, 2, 3, 3, 3]


def test_clients_without_a_head_are_left_out():
    store = Store(range(6), missing=[0, 3])

    for limit in (size(1), size(9)):
        heads = Heads(store.read, range(6), limit=limit)
        assert heads.clients == [1, 2, 4, 5]
        assert len(list(heads.each())) == 4


def test_blocks_are_the_heads_in_order():
    clients = range(2 * BLOCK + 3)
    store = Store(clients)
    blocks = list(Heads(store.read, clients).blocks())

    assert [len(block) for block in blocks] == [BLOCK, BLOCK, 3]
    np.testing.assert_array_equal(
        np.concatenate(blocks), [store.heads[c] for c in clients]
    )


def test_no_clients_are_no_heads():
    heads = Heads(Store([]).read, [])

    assert (heads.clients, list(heads.each()), list(heads.blocks())) == ([], [], [])


def test_heads_of_two_shapes_are_refused():
    store = Store(range(3))
    store.heads[2] = np.zeros((3, 5), dtype=np.float32)

    with pytest.raises(ValueError, match=r"one shape; got \(3, 4\) and \(3, 5\)"):
        Heads(store.read, range(3))


@pytest.mark.parametrize("gone", [1, 3])
def test_a_head_that_goes_between_two_readings_is_an_error(gone):
    store = Store(range(4))
    heads = Heads(store.read, range(4), limit=size(1))
    store.missing = {gone}

    # Otherwise all that follow would be taken for their neighbours'.
    with pytest.raises(ValueError, match=r"gone|shorter"):
        list(heads.each())

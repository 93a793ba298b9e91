from __future__ import annotations

import numpy as np

from harness.streams import generator, stream_seed, torch_seed


def test_streams_are_named_repeatable_and_apart():
    def numbers(*labels):
        return tuple(generator(7, *labels).random(4))

    assert numbers("a", 1) == numbers("a", 1)
    assert len({numbers("a"), numbers("a", 1), numbers("a", 2), numbers("b"), numbers()}) == 5
    assert tuple(generator(8, "a").random(4)) != numbers("a")


def test_seeds_fit_their_readers():
    assert 0 <= torch_seed(2**53 - 1, "x") < 2**63
    assert 0 <= stream_seed(2**53 - 1, "x") < 2**53


def test_no_global_seed_is_read():
    np.random.seed(1)  # poisoned on purpose
    one = generator(3, "a").random()
    np.random.seed(2)  # poisoned on purpose
    assert generator(3, "a").random() == one

"""The synthetic data."""

from __future__ import annotations

import pytest

from warpwise.apps.clustering import generators


@pytest.mark.parametrize("name", ["layered", "potts", "composed"])
def test_examples_of_too_many_domains_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"expected at most 12 domains, the points of a grid of \(3, 4\), got 13"):
        getattr(generators, name)(shape=(3, 4), n_domains=13)
    with pytest.raises(ValueError, match="expected at least 1 domain, got 0"):
        getattr(generators, name)(n_domains=0)
    with pytest.raises(ValueError, match=r"shape: expected two sizes, got \(3, 4, 5\)"):
        getattr(generators, name)(shape=(3, 4, 5))

"""Seeds of the campaign, as many as fit: random networks of whole peers, people, faults and lies.

``vinecast campaign`` does as many as one likes. What breaks in a way that is not known makes a test fail; it
names the seed, and ``vinecast campaign --seeds N-N --story`` tells what happened.
"""

import pytest

from vinecast.lab.campaign.campaign import result_of

SEEDS = 112
"""About 90 seconds of one core."""
TOGETHER = 2
"""Seeds in one test: parts that processes can share."""


@pytest.mark.parametrize("first", range(0, SEEDS, TOGETHER))
def test_nothing_breaks_that_is_not_known_to(first: int) -> None:
    results = [result_of(seed) for seed in range(first, first + TOGETHER)]
    assert {result.seed: result.unexpected for result in results if result.unexpected} == {}
    assert all(result.figures["published"] and result.figures["inputs"] for result in results)

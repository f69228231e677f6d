"""What Spark tests share: ``pytestmark = SPARK`` makes one worker of the suite run them all, with one JVM."""

import pytest

SPARK = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # sockets that py4j closes when it is collected
]
OWN_SPARK = pytest.mark.xdist_group("own spark")
"""For tests that start a Spark in a process of their own: another worker may run them meanwhile."""

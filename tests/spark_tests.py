"""What Spark tests share: ``pytestmark = SPARK`` makes one worker of the suite run them all, with one JVM."""

import pytest

SPARK = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # sockets that py4j closes when it is collected
]

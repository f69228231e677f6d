"""``python -m vinecast.lab.mutants.seeds N …``: do these seeds until one shows a broken promise that is not
known; which one, and what, as one line of JSON. It runs in the copy that has a mutant in it.

An exception shows something, too, wherever it is raised, in a peer or in the machinery of the run: the same
seed raises none without the mutant. Only what cannot be imported shows nothing: then this process fails."""

import json
import sys
import traceback
from collections.abc import Sequence

from vinecast.lab.campaign.campaign import result_of


def first_to_show(seeds: Sequence[int]) -> dict[str, object]:
    """The first of these seeds that shows something."""
    for seed in seeds:
        try:
            unexpected = result_of(seed).unexpected
        except ImportError:
            raise
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            unexpected = [f"raised {type(error).__name__} in {place.name}"]
        if unexpected:
            return {"seed": seed, "found": unexpected}
    return {"seed": None, "found": []}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(first_to_show([int(text) for text in sys.argv[1:]])) + "\n")

"""All mutants."""

from vinecast.lab.mutants.mutant import Mutant
from vinecast.lab.mutants.peers import PEERS
from vinecast.lab.mutants.reading import READING
from vinecast.lab.mutants.receipts import RECEIPTS
from vinecast.lab.mutants.repair import REPAIRS

MUTANTS: tuple[Mutant, ...] = (*RECEIPTS, *REPAIRS, *READING, *PEERS)

import os

from ._native import Comparison as Comparison
from ._native import Construct as Construct
from ._native import Error as Error
from ._native import Guarantee as Guarantee
from ._native import Memory as Memory
from ._native import Output as Output
from ._native import Plan as Plan
from ._native import Program as Program
from ._native import Run as Run
from ._native import Simulation as Simulation
from ._native import Stage as Stage
from ._native import Support as Support
from ._native import Table as Table
from ._native import target as target
from ._native import targets as targets

def load(path: str | os.PathLike[str], **options) -> Program:
    """Reads and checks a program; keywords are those of `Program`."""

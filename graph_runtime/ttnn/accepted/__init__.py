"""What ttnn's operations accept: a table of rules for each family, named as in operations/. Read: rules, then
one table, for example indexing.
"""

from . import attention as attention  # each module adds its rows
from . import copies as copies
from . import creation as creation
from . import elementwise as elementwise
from . import experts as experts
from . import indexing as indexing
from . import model_heads as model_heads
from . import movement as movement
from . import norms as norms
from . import pairs as pairs
from . import products as products
from . import reduction as reduction
from . import sampling as sampling
from . import transforms as transforms

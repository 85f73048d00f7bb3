"""One replica of a run that has several, each a process of its own.

torch_xla's replicas on a CPU are threads of one process whose collectives wait for each other under
different names, for ever. Here each replica has its own XLA client of one device, and what passes
between replicas goes through the host, over gloo: ``meeting`` carries it, and finds out who does
not come; ``functions`` puts it in the place of ``xm``'s functions; ``launching`` starts replicas
where the script starts them. ``files`` and ``gradients`` note what is to be checked.
"""

from __future__ import annotations

from xla_migrate.verify.replicas.replica import Replica

__all__ = ["Replica"]

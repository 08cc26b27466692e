"""Exact search in memory, in a process of its own: every clause is compared, so that nothing near is ever missed.

Nothing outlives that process, nor the service: after its end ``versions`` is empty and every call on a version is
refused, until whoever fills the index creates the version anew.
"""

from __future__ import annotations

from devassist.core.errors import VectorsUnavailable
from devassist.vectors.child import Program
from devassist.vectors.worker_index import WorkerIndex

PROGRAM = Program(
    worker="devassist.vectors.exact_worker",
    what="The exact vector index",
    fault=VectorsUnavailable,
    # One thread: the product of a matrix and a vector waits for memory, and threads of BLAS cost memory each.
    environment={"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
)


class ExactIndex(WorkerIndex):
    """See ``devassist.ports.vectors.VectorIndex``; up to some 100,000 clauses (90 MB at 58,827 of 384 numbers)."""

    def __init__(self) -> None:
        super().__init__(PROGRAM)

    @property
    def kind(self) -> str:
        return "exact"

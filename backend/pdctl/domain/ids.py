"""Names that must not be confused with one another."""

from typing import NewType

PoolName = NewType("PoolName", str)
InstanceId = NewType("InstanceId", str)
RequestId = NewType("RequestId", str)
Seq = NewType("Seq", int)
"""Position in the event feed; starts at 1 and grows by one for every fact."""

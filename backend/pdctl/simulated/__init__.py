"""The simulated engine: an HTTP server that speaks vLLM's dialect and computes nothing.

Its law: what a client, router or scraper sees has vLLM's shape; what takes time takes the time of a
documented model (`timing`); and the text depends on model and prompt alone, so a handoff that
went wrong shows. Nothing here may import another pdctl package except `pdctl.tasks`.
"""

from pdctl.simulated.config import SimConfig, Timing
from pdctl.simulated.engine import SimulatedEngine
from pdctl.simulated.faults import Faults

__all__ = ["Faults", "SimConfig", "SimulatedEngine", "Timing"]

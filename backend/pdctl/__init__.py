"""pdctl: the operator console for vLLM prefill/decode disaggregation.

The root is empty on purpose: what others may use is `contract`, `client`, `ports` and the
protocols of plug-ins.
"""

__version__ = "0.1.0"

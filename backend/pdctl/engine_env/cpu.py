"""What every vLLM instance needs on a machine without a GPU: environment and arguments, as data.

What differs per instance is added by who launches it: VLLM_CPU_OMP_THREADS_BIND (its core),
VLLM_NIXL_SIDE_CHANNEL_PORT, VLLM_PROCESS_NAME_PREFIX, the HTTP port, the KV connector's JSON.
"""

from types import MappingProxyType

MODULE = "vllm.entrypoints.openai.api_server"
"""Run with `python -m`: the `vllm` command needs a distribution of that name, not vllm-cpu."""

KV_BUFFER_DEVICE = "cpu"
KV_BLOCK_TOKENS = 128
KV_LEASE_SECONDS = 10
"""A first pull can stall until the lease ends: a CPU fleet keeps it short (vLLM: 30)."""

ENGINE_ENV = MappingProxyType(
    {
        # GiB of KV cache; vLLM would otherwise take half the machine's memory per instance.
        "VLLM_CPU_KVCACHE_SPACE": "1",
        # The model is a local folder: never ask a hub about it.
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        # Else the first request with logprobs compiles for half a minute.
        "TORCH_COMPILE_DISABLE": "1",
        # UCX probes for fast networks otherwise; these three are what one machine has.
        "UCX_TLS": "tcp,sm,self",
        "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1",
        # Our plugin: NIXL's progress thread and vLLM's queue readers sleep between looks instead of
        # burning the cores that compute (prefill legs of one pair on two cores: 400 ms, then 20).
        "PDCTL_NIXL_PROGRESS_DELAY_US": "100",
        "PDCTL_QUEUE_SPIN_US": "0",
        # vLLM's own choice, which it cannot make once the plugin has imported NIXL.
        "UCX_RCACHE_MAX_UNRELEASED": "1024",
        "PYTHONUNBUFFERED": "1",
    }
)

ENGINE_ARGS = (
    # CPU kernels in float32 give the same greedy tokens whatever the batch and the chunking.
    "--dtype",
    "float32",
    # No graphs to capture on a CPU.
    "--enforce-eager",
)

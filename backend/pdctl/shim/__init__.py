"""The shim: one tiny process per instance that outlives the control plane and cleans up after vLLM.

Law: standard library only, light imports only (it stays resident once per instance), and nothing
else of pdctl. It is executed by path; what it writes are the files that `records` names.
"""

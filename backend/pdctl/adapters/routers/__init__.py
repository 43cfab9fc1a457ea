"""The router in processes of its own, as the control plane starts, adopts and replaces them."""

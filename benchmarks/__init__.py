"""Measurements that are part of the product: each prints one table and takes under a minute."""

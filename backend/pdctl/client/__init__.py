"""The public client of the admin API: what every face is built on.

Law: imports `contract` only. A face that has this has every power an operator has, and no other.
"""

"""Pieces of screens. Law: a widget draws what it is given; it never asks the network."""

"""Routing policies, one file each; the file's name is the name in the fleet file.

Law: pure and total. The same candidates, facts and chance give the same choice, always one of the
candidates, with a reason that an operator can read. Policies know nothing of each other.
"""

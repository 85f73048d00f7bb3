"""The pull-request bot: what a migration would change, shown where a change is reviewed.

``examine`` migrates a tree into a ``Report`` and needs neither the forge nor a token; ``publish`` and
``apply`` bring a report to a forge and run no code. Whoever does both in one process (``worker``) does the
first in a child that knows no secret.
"""

"""Operators in few lines: a function from an object to the children, status and events that it should have.

plan(Observed) ──▶ Desired ──▶ operator() ──▶ Work ──▶ main(): a program with leader election, metrics and probes
check(new, old), default(document) ──▶ validating(), defaulting() ──▶ ReviewRule ──▶ main(): a webhook server

This package builds values of `pykruise.runtime`. For everything that it cannot express, write a `Control`, which runs
in the same program.
"""

from pykruise.operators.children import APPLIED_BY, APPLIED_FIELDS, Child
from pykruise.operators.decisions import Desired, DesiredReason, Observed
from pykruise.operators.kit import operator
from pykruise.operators.program import main
from pykruise.operators.reviews import defaulting, validating, webhook_configurations

__all__ = [
    "APPLIED_BY",
    "APPLIED_FIELDS",
    "Child",
    "Desired",
    "DesiredReason",
    "Observed",
    "defaulting",
    "main",
    "operator",
    "validating",
    "webhook_configurations",
]

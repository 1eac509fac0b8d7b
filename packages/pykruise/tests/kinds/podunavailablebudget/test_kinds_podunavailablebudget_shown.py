"""Columns of PodUnavailableBudgets in `kubectl kruise get all`."""

from pykruise.kinds.podunavailablebudget.shown import SHOWN


def test_each_column_shows_the_value_that_its_header_names() -> None:
    since = "2026-03-01T12:00:00Z"
    document = {
        "spec": {"minAvailable": "50%"},
        "status": {
            "unavailableAllowed": 1,
            "totalReplicas": 8,
            "unavailablePods": {"a": since, "b": since},
            "disruptedPods": {"c": since},
        },
    }
    assert {cell.head: cell.read_cell(document) for cell in SHOWN.columns} == {
        "MAXUNAVAILABLE": "-",
        "MINAVAILABLE": "50%",
        "UNAVAILABLE": 2,
        "DISRUPTIONS": 1,
        "ALLOWED": 1,
        "TARGETS": 8,
    }
    unobserved = {cell.head: cell.read_cell({"spec": {"maxUnavailable": 1}}) for cell in SHOWN.columns}
    assert (unobserved["MAXUNAVAILABLE"], unobserved["UNAVAILABLE"]) == (1, 0)

"""Ids of a CloneSet's new pods: first the ids of leftover claims, then fresh ids."""

import pytest

from pykruise.kinds.cloneset.claims import choose_ids
from pykruise.pods.view.names import IdSource, InstanceId
from pykruise.pods.workload.claims import ClaimView

SOURCE = IdSource(1)


def view(instance_id: str, template: str = "data", *, deleting: bool = False) -> ClaimView:
    """The claim of the pod with this id."""
    return ClaimView(
        namespace="shop",
        name=f"{template}-web-{instance_id}",
        uid=f"uid-{template}-{instance_id}",
        resource_version=3,
        instance_id=InstanceId(instance_id),
        is_deleting=deleting,
    )


def ids(count: int, *stored_claims: ClaimView, **pods: str) -> tuple[list[str], list[str]]:
    """Chosen ids, and ids that are waited for. `active`, `terminating`, `finished`: ids of pods, with spaces."""
    choice = choose_ids(
        count,
        claims=stored_claims,
        active=pods.get("active", "").split(),
        terminating=pods.get("terminating", "").split(),
        finished=pods.get("finished", "").split(),
        source=SOURCE,
    )
    return list(choice.ids), list(choice.awaited)


def test_a_replacement_takes_the_id_and_claim_of_a_deleted_pod() -> None:
    """cloneset case 45"""
    assert ids(1, view("aaaaa"), view("bbbbb"), active="bbbbb") == (["aaaaa"], [])


def test_a_replacement_waits_while_the_last_pod_of_the_id_terminates() -> None:
    """cloneset 6.7: the name is in use, and a fresh id would leave the claim without a pod"""
    assert ids(1, view("aaaaa"), terminating="aaaaa") == ([], ["aaaaa"])
    chosen, waiting = ids(3, view("aaaaa"), view("bbbbb"), terminating="aaaaa")
    assert "bbbbb" in chosen
    assert (len(chosen), waiting) == (2, ["aaaaa"])


def test_fewer_pods_than_unused_claims_wait_for_no_terminating_pod() -> None:
    assert ids(1, view("aaaaa"), view("bbbbb"), terminating="aaaaa") == (["bbbbb"], [])


def test_a_finished_pod_that_stays_gets_a_replacement_with_a_fresh_id() -> None:
    """cloneset 6.7"""
    (text,), waiting = ids(1, view("aaaaa"), finished="aaaaa")
    assert text != "aaaaa"
    assert waiting == []


def test_a_claim_that_is_being_deleted_gives_its_id_to_no_pod() -> None:
    """cloneset case 51"""
    drawn = SOURCE.draw_ids(1, used=())[0]
    (text,), _ = ids(1, view(drawn, deleting=True), view(drawn, "log"))
    assert text != drawn


def test_fresh_ids_avoid_every_id_in_use() -> None:
    """cloneset 6.7"""
    drawn = SOURCE.draw_ids(3, used=())
    for taken in ("active", "terminating", "finished"):
        result, _ = ids(2, **{taken: " ".join(drawn)})
        assert not set(result) & set(drawn)
    choice = choose_ids(2, claims=(), active=(), terminating=(), finished=(), source=SOURCE, taken=drawn)
    assert not set(choice.ids) & set(drawn)


@pytest.mark.parametrize("count", [0, -1])
def test_no_id_is_chosen_without_pods_to_create(count: int) -> None:
    given = [view("aaaaa"), view("bbbbb"), view("ccccc"), view("ddddd")]
    assert ids(count, *given, terminating="bbbbb ccccc") == ([], [])


def test_instance_ids_are_sorted_and_new_ones_avoid_ids_of_used_claims() -> None:
    drawn = SOURCE.draw_ids(2, used=())
    given = [view("zzzzz"), *(view(name) for name in drawn)]
    result, waiting = ids(3, *given, active=drawn[0], finished=drawn[1])
    assert result == sorted(result)
    assert "zzzzz" in result
    assert not {*result} & {*drawn}
    assert waiting == []


def test_the_same_claims_and_source_give_the_same_ids() -> None:
    given = [view("ccccc"), view("aaaaa"), view("bbbbb")]
    assert ids(2, *given) == ids(2, *reversed(given)) == (["aaaaa", "bbbbb"], [])


def test_a_claim_without_an_id_belongs_to_no_pod() -> None:
    """cloneset 6.6: never match on an empty id"""
    (chosen,), _ = ids(1, view(""))
    assert chosen

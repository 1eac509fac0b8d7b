"""After any writes, every kept revision can be read, and changes lead from one revision to the next."""

from hypothesis import given
from hypothesis import strategies as st

from pykruise.kube.ids import Key
from pykruise.sandbox.apiserver.objects.storage import MemoryStorage, StorageChange, Stored

Writes = list[tuple[str, str, bool]]


def _write(storage: MemoryStorage, namespace: str, name: str, *, remove: bool) -> None:
    key = Key(namespace, name)
    old = storage.get("pods", key)
    if remove and old is None:
        return
    revision = storage.revision + 1
    new = None if remove else Stored(key=key, raw=b"{}", revision=revision, uid=str(revision))
    storage.commit(StorageChange(revision, "pods", old, new))


def _state(storage: MemoryStorage, revision: int = 0) -> dict[str, int]:
    return {stored.path: stored.revision for stored in storage.scan("pods", revision=revision).items}


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.booleans()), max_size=40))
def test_every_past_state_can_be_read_again(writes: Writes) -> None:
    # given
    storage = MemoryStorage()
    states = {storage.revision: _state(storage)}
    # when
    for namespace, name, remove in writes:
        _write(storage, namespace, name, remove=remove)
        states[storage.revision] = _state(storage)
    # then
    for revision, state in states.items():
        assert _state(storage, revision) == state


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.booleans()), max_size=40),
    st.integers(0, 40),
)
def test_the_changes_after_a_revision_lead_from_its_state_to_the_present_one(
    writes: Writes, position: int
) -> None:
    # given
    storage = MemoryStorage()
    begin, before = storage.revision, _state(storage)
    for index, (namespace, name, remove) in enumerate(writes):
        if index == position:
            begin, before = storage.revision, _state(storage)
        _write(storage, namespace, name, remove=remove)
    # when
    for change in storage.list_changes_since("pods", begin):
        if change.new is None:
            del before[change.path]
        else:
            before[change.path] = change.revision
    # then
    assert before == _state(storage)


@given(st.lists(st.sampled_from("abcdefgh"), max_size=30), st.integers(1, 4))
def test_joined_pages_are_the_whole_list_despite_writes_between_them(names: list[str], limit: int) -> None:
    # given
    storage = MemoryStorage()
    for name in names:
        _write(storage, "n", name, remove=False)
    whole, revision = _state(storage), storage.revision
    # when
    result: dict[str, int] = {}
    start = ""
    while True:
        page = storage.scan("pods", start=start, limit=limit, revision=revision)
        result |= {stored.path: stored.revision for stored in page.items}
        if not page.following:
            break
        start = f"{page.items[-1].path}\0"
        _write(storage, "n", page.items[-1].key.name, remove=True)
        _write(storage, "n", f"new-{page.items[-1].key.name}", remove=False)
    # then
    assert result == whole

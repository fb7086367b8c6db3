import recipes
from recipes import testing


def bill(client: recipes.Client, customer: str, sent: list[str]) -> bool:
    """The code to test: nobody is sent two bills at once."""
    grant = client.lock(f"bills/{customer}").try_acquire()
    if grant is None:
        return False
    with grant:
        sent.append(customer)
        return True


def test_a_bill_is_sent() -> None:
    sent: list[str] = []
    with testing.Store() as store:  # in memory: no server, and time stands still
        assert bill(store.connect(), "ada", sent)
    assert sent == ["ada"]


def test_a_second_one_is_not_while_another_process_is_at_it() -> None:
    sent: list[str] = []
    with testing.Store() as store, store.connect() as other, other.lock("bills/ada"):
        assert not bill(store.connect(), "ada", sent)
    assert sent == []

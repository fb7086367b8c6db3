"""The recipe for object stores, which is an example of the documentation: boto3, against a fake of S3."""

from __future__ import annotations

import gc
import random
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from recipes import StaleToken
from recipes.fencing import Seen
from tests.docs.pages import ROOT, example_on
from tests.fencing.objects import ObjectStore

PATH = "/app/reports/nightly"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "nobody")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "nowhere-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with ObjectStore() as one:
        yield one


@pytest.fixture
def recipe(store: ObjectStore, capsys: pytest.CaptureFixture[str]) -> Iterator[dict[str, Any]]:
    text = example_on(ROOT / "docs/examples/fencing_objects.py", f"memory://{uuid.uuid4().hex}")
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(text.replace("http://127.0.0.1:9000", store.url), names)
    store.objects.clear()
    names["said"] = capsys.readouterr().out
    yield names
    names["s3"].close()
    names.clear()
    gc.collect()


def once(call: Callable[[], None]) -> Callable[[], None]:
    """Return what makes a call the first time, also when that comes back to it."""
    calls = iter([call])

    def come() -> None:
        for one in calls:
            one()

    return come


def test_the_example_runs(recipe: dict[str, Any]) -> None:
    assert "'reports/nightly' refused token" in recipe["said"]


def test_a_write_is_judged_again_when_somebody_wrote_meanwhile(
    recipe: dict[str, Any], store: ObjectStore
) -> None:
    publish, s3 = recipe["publish"], recipe["s3"]
    publish(s3, 5, b"first")
    store.before_writing = once(lambda: publish(s3, 7, b"newer"))
    with pytest.raises(StaleToken) as refused:
        publish(s3, 6, b"late")
    assert refused.value.seen == 7
    assert store.objects[PATH] == b"7 7\nnewer"


def test_the_same_content_under_another_token_is_another(recipe: dict[str, Any], store: ObjectStore) -> None:
    """An ETag of S3 is a digest of the content: tokens in the metadata alone would not change it."""
    publish, s3 = recipe["publish"], recipe["s3"]
    publish(s3, 5, b"same")
    store.before_writing = once(lambda: publish(s3, 7, b"same"))
    with pytest.raises(StaleToken):
        publish(s3, 6, b"same")
    assert recipe["look"](s3)[0] == Seen(7, 7)


def test_of_many_late_writers_the_last_holder_wins(recipe: dict[str, Any], store: ObjectStore) -> None:
    publish, s3 = recipe["publish"], recipe["s3"]
    tokens = list(range(1, 25))
    random.Random(7).shuffle(tokens)
    written: list[int] = []
    mutex = threading.Lock()

    def write(token: int) -> None:
        try:
            publish(s3, token, str(token).encode())
        except StaleToken:
            return
        with mutex:
            written.append(token)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, tokens))
    assert store.objects[PATH] == b"24 24\n24"
    assert max(written) == 24

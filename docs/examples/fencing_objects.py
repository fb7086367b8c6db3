from typing import Any

import boto3
from botocore.exceptions import ClientError

import recipes
from recipes.fencing import Proof, Seen

PLACE = {"Bucket": "app", "Key": "reports/nightly"}
CONFLICTS = ("PreconditionFailed", "ConditionalRequestConflict")


def look(s3: Any) -> tuple[Seen, bytes, dict[str, str]]:
    """Return what was seen, the data, and the condition for a write."""
    try:
        found = s3.get_object(**PLACE)
    except ClientError as missing:
        if missing.response["Error"]["Code"] != "NoSuchKey":
            raise
        return Seen(), b"", {"IfNoneMatch": "*"}
    fence, _, data = found["Body"].read().partition(b"\n")
    return Seen(*map(int, fence.split())), data, {"IfMatch": found["ETag"]}


def publish(s3: Any, grant: Proof, data: bytes) -> None:
    while True:
        seen, _, unchanged = look(s3)
        seen = seen.admit("reports/nightly", grant)  # StaleToken after a later holder
        fence = f"{seen.newest} {seen.writer}\n".encode()
        try:
            s3.put_object(**PLACE, Body=fence + data, **unchanged)
            return
        except ClientError as refused:
            if refused.response["Error"]["Code"] not in CONFLICTS:
                raise  # otherwise another process wrote meanwhile: look again


s3 = boto3.client("s3", endpoint_url="http://127.0.0.1:9000")
with recipes.connect("etcd://127.0.0.1:2379/app") as client:
    with client.lock("reports/nightly") as late:
        pass  # this holder is paused here, and the lock goes to the next
    with client.lock("reports/nightly") as grant:
        publish(s3, grant, b"by the holder")

    try:
        publish(s3, late.token, b"by the late one")
    except recipes.StaleToken as refused:
        print(refused)
    assert look(s3)[1] == b"by the holder"

import recipes


class Archive:
    """A resource that protects itself: it refuses writers that are out of date."""

    def __init__(self) -> None:
        self.newest_token = 0
        self.reports: list[str] = []

    def publish(self, report: str, *, fence: int) -> None:
        if fence < self.newest_token:
            raise PermissionError(f"token {fence} is older than {self.newest_token}")
        self.newest_token = fence
        self.reports.append(report)


archive = Archive()

with recipes.connect("etcd://127.0.0.1:2379/app") as client:
    lock = client.lock("reports/nightly")

    with lock as late:
        pass  # this holder is paused here, and the lock goes to the next one
    with lock as current:
        archive.publish("by the holder", fence=current.token)

    try:
        archive.publish("by the late one", fence=late.token)
    except PermissionError as refused:
        print(refused)

assert archive.reports == ["by the holder"]

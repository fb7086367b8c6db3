import time

import etcd3gw

etcd = etcd3gw.Etcd3Client("127.0.0.1", 2379, api_path="/v3/", timeout=5)
lock = etcd.lock("reports", ttl=15)

end = time.monotonic() + 5
while not (taken := lock.acquire()) and time.monotonic() < end:
    time.sleep(0.5)
if taken:
    try:
        for page in ("first", "second"):
            lock.refresh()  # more often than every 15 s, or it is gone
            print(page, "page is made")
    finally:
        lock.release()

import etcd3gw

import recipes

etcd = etcd3gw.Etcd3Client("127.0.0.1", 2379, api_path="/v3/", timeout=5)

with recipes.connect("etcd://127.0.0.1:2379/app") as client:
    old, new = etcd.lock("reports", ttl=60), client.lock("reports")
    if old.acquire():  # the old one first, everywhere
        try:
            with new.acquire(timeout=30) as grant:
                print("the report is made under both, token", grant.token)
        finally:
            old.release()

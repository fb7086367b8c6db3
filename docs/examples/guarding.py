from base64 import b64encode

import etcd3gw

import recipes
import recipes.etcd

etcd = etcd3gw.Etcd3Client("127.0.0.1", 2379, api_path="/v3/", timeout=5)


def encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


with recipes.connect("etcd://127.0.0.1:2379/app") as client:
    with client.lock("settings") as grant:
        put = {"request_put": {"key": encoded("settings"), "value": encoded("new")}}
        reply = etcd.transaction(
            {"compare": [recipes.etcd.guard(grant)], "success": [put], "failure": []}
        )
        if not reply.get("succeeded"):
            raise recipes.LockLost(grant.name, grant.token, "etcd refused the write")

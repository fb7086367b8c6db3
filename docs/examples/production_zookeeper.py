import os

from kazoo.security import make_digest_acl

import recipes

password = os.environ["LOCKS_PASSWORD"]
team = [
    make_digest_acl("reports", password, all=True),
    make_digest_acl("operators", "another", all=True),
]
with recipes.connect(
    "zookeepers://127.0.0.1:2281/app",
    username="reports",
    password=password,
    acl=team,
    tls_ca="/etc/app/ca.pem",
) as client:
    with client.lock("reports/nightly") as grant:
        print(f"{client!r}, token {grant.token}")

import os

import recipes

with recipes.connect(
    "etcds+grpc://127.0.0.1:2379/app",
    username="reports",
    password=lambda: os.environ["LOCKS_PASSWORD"],
    tls_ca="/etc/app/ca.pem",
    tls_cert="/etc/app/client.pem",
) as client:
    with client.lock("reports/nightly") as grant:
        print(f"{client!r}, token {grant.token}")

export RECIPES_STORE=sqlite:///tmp/app.db

recipes run reports/nightly --owner "the nightly job" -- sleep 600 &
while [ "$(recipes ls)" = "nobody holds a lock here, and nobody waits" ]; do sleep 0.1; done

recipes ls
recipes who reports/nightly
token=$(recipes who reports/nightly --json |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["holders"][0]["token"])')
recipes break reports/nightly --token "$token" --yes
wait $! || echo "exit code $?" # 123: recipes run is notified, and ends its command

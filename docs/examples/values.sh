export RECIPES_STORE=sqlite:///tmp/app.db

recipes set settings '{"rate": 10}'
recipes get settings; echo
recipes get nothing || echo "exit code $?" # 1: there is no such value

version=$(recipes get settings --json |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["version"])')
recipes set settings '{"rate": 25}' --if-version "$version"
recipes set settings '{"rate": 99}' --if-version "$version" ||
  echo "exit code $?" # 1: it has another version

recipes watch-value settings --json > /tmp/changes.jsonl &
until [ -s /tmp/changes.jsonl ]; do sleep 0.1; done
echo '{"rate": 50}' | recipes set settings -
until grep -q 50 /tmp/changes.jsonl; do sleep 0.1; done
kill $!
cat /tmp/changes.jsonl

recipes count orders --start 1000 --add 1

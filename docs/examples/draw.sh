export RECIPES_STORE=sqlite:///tmp/app.db

for number in 1 2 3; do
  recipes run reports/nightly --events /tmp/events.jsonl -- sleep 0.1 &
done
wait
recipes timeline /tmp/events.jsonl -o /tmp/timeline.html
recipes stats /tmp/events.jsonl
recipes stats --json /tmp/events.jsonl | grep '"grants"'

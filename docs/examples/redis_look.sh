export RECIPES_STORE=redis://127.0.0.1:6379/0/app

recipes run reports/nightly -- sleep 60 &
holder=$!
until recipes who reports/nightly | grep exclusive; do sleep 0.1; done

recipes ls
redis-cli get app:reports/nightly
redis-cli del app:reports/nightly # its holder is notified at its next renewal
wait $holder || echo "ended with $?"

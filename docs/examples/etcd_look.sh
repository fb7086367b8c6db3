export RECIPES_STORE=etcd://127.0.0.1:2379/app

recipes run reports/nightly -- sleep 60 &
holder=$!
until etcdctl get app/reports --prefix --keys-only | grep app/; do sleep 0.1; done

recipes who reports/nightly
etcdctl lock app/reports%2Fnightly echo "and now etcdctl has it" & # waits
kill $holder # ends the sleep, and gives the lock back
wait

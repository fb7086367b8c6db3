export RECIPES_STORE=zookeeper://127.0.0.1:2181/app

recipes run reports/nightly -- sleep 60 &
holder=$!
until recipes who reports/nightly | grep exclusive; do sleep 0.1; done

zkCli.sh -server 127.0.0.1:2181 ls /app/reports%2Fnightly 2> zookeeper.log | tail -1
kill $holder # ends the sleep, and gives the lock back
wait

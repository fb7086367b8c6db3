python deploy_worker.py old > old.log &
old=$!
until grep -q step old.log; do sleep 0.1; done

python deploy_worker.py new > new.log & # the new version waits while the old one works
new=$!
kill -TERM $old # finish the step, give the lock back, end
wait $old
until grep -q step new.log; do sleep 0.1; done
kill -TERM $new
wait $new
tail -n 1 old.log new.log

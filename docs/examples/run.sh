# A file here; etcd://host:2379/app or zookeeper://host:2181/app for several machines.
export RECIPES_STORE=sqlite:///tmp/app.db

recipes run reports/nightly -- echo "one at a time"
recipes run reports/nightly --timeout 60 -- sh -c 'echo "token $RECIPES_TOKEN"'
recipes run reports/nightly --try -- echo "it was free" || echo "somebody else does it"
recipes run catalog --shared -- echo "beside other readers"

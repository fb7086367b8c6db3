etcdctl --endpoints=127.0.0.1:2379 lock app/reports%2Fnightly echo "held by etcdctl"

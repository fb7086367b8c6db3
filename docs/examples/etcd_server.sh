etcd --data-dir etcd-data

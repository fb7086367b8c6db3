etcdctl user add reports --interactive=false < password
etcdctl role add app-locks
etcdctl role grant-permission app-locks readwrite --prefix app/
etcdctl role grant-permission app-locks readwrite --prefix '~session/app/'
etcdctl user grant-role reports app-locks

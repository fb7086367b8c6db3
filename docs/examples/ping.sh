recipes ping --store sqlite:///tmp/app.db
recipes ping --store etcd://127.0.0.1:1/app --request-timeout 0.5 --json ||
  echo "exit code $?"

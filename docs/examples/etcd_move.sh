until etcdctl endpoint health; do sleep 0.5; done

sed -i 's|connect("[^"]*"|connect("etcd://127.0.0.1:2379/app"|' first_lock.py
echo 0 > visits.txt
python first_lock.py &
python first_lock.py &
wait
echo "$(cat visits.txt) visits of 100"

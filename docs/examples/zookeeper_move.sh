until recipes ping --store zookeeper://127.0.0.1:2181/app; do sleep 0.5; done

sed -i 's|connect("[^"]*"|connect("zookeeper://127.0.0.1:2181/app"|' first_lock.py
echo 0 > visits.txt
python first_lock.py &
python first_lock.py &
wait
echo "$(cat visits.txt) visits of 100"

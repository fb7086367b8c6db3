echo 0 > visits.txt
python first_lock.py &
python first_lock.py &
wait
echo "$(cat visits.txt) visits of 100"

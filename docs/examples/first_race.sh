echo 0 > visits.txt
python first_race.py &
python first_race.py &
wait
echo "$(cat visits.txt) visits of 100"

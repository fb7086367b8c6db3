python first_fenced.py alice --pause &
alice=$!
until [ "$(ps -o state= -p $alice)" = T ]; do sleep 0.1; done # until she is stopped

python first_fenced.py bob
kill -CONT $alice
wait $alice
python -c 'import sqlite3
print(sqlite3.connect("shop.db").execute("SELECT * FROM price").fetchall())'

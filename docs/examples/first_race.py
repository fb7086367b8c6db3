import pathlib
import time

counter = pathlib.Path("visits.txt")

for _ in range(50):
    visits = int(counter.read_text() or 0)  # read,
    time.sleep(0.005)  # think,
    counter.write_text(str(visits + 1))  # write

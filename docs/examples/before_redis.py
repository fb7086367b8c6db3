import redis
from redis.exceptions import LockError

with redis.Redis(host="127.0.0.1", port=6379) as server:
    lock = server.lock("reports", timeout=15, blocking_timeout=5)
    try:
        with lock:
            print("first page is made")
            lock.reacquire()  # 15 s from now
            print("second page is made; owned:", lock.owned())
    except LockError:
        print("somebody else has it, or had it before we were done")

import pottery
import redis

with redis.Redis(host="127.0.0.1", port=6379) as server:
    lock = pottery.Redlock(key="reports", masters={server}, auto_release_time=15)
    if lock.acquire(timeout=5):
        print("first page is made")
        lock.extend()
        print("second page is made")
        lock.release()

import redis
import redis_lock

with redis.Redis(host="127.0.0.1", port=6379) as server:
    with redis_lock.Lock(server, "reports", expire=15, auto_renewal=True):
        print("the report is made")

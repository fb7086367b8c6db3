from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

kazoo = KazooClient("127.0.0.1:2181", timeout=15)
kazoo.start()
lock = kazoo.Lock("/app/reports", identifier="nightly job", extra_lock_patterns=("-lock-",))
try:
    lock.acquire(timeout=5)
except LockTimeout:
    print("somebody else has it")
else:
    try:
        print("the report is made by", lock.contenders()[0])
    finally:
        lock.release()
kazoo.stop()
kazoo.close()
